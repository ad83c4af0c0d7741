"""Measure the server beside the search: many clients, one client, and a short request beside a book. Prints ratios.

`python -m benchmarks.serve --model DIR --text FILE`; each line of FILE is a request, unless `--request-lines` says
otherwise. The server, `nmt translate` and the search alone take turns, so that whatever else the machine does falls on
all of them. The clients share the processors with the server; they are one thread, which takes a tenth of a millisecond
for a request. `--against` names a directory with another version and its `.venv`, whose server takes turns too, with
its defaults. With `--search`, the clients are threads beside one worker, without HTTP, and the processor time of its
searches and of the translator is compared, which other programs change little.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

NMT = (sys.executable, "-m", "nmt_cli")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--request-lines", type=int, default=1, help="lines in each request of the many clients")
    parser.add_argument("--alone", type=int, default=100, help="lines for the latency of a single client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--against", type=Path, help="the directory of another version, which has a .venv")
    parser.add_argument("--search", action="store_true", help="compare the processor time of the searches alone")
    asked = parser.parse_args()
    with asked.text.open(encoding="utf-8") as text:
        lines = [line.rstrip("\n") for line in islice(text, asked.lines)]
    if asked.search:
        search_and_file(asked, lines)
        return
    workers = ("--threads", str(asked.threads), "--workers", str(asked.workers))
    options = ("--model", str(asked.model), *workers)
    with ExitStack() as stack:
        port, languages, process = stack.enter_context(running(NMT, options))
        servers = {"server": port}
        if asked.against is not None:
            other = (str(asked.against / ".venv/bin/nmt"),)
            other_options = ("--model", str(asked.model))
            print(f"server: {' '.join(options)}; other version: {' '.join(other_options)}")
            servers["other version"], _, _ = stack.enter_context(running(other, other_options))
        crowd_and_file(asked, lines, options, servers, languages)
        one_and_search(asked, lines, port, languages)
        beside_a_book(lines, port, languages)
        print(f"memory of the server: {memory(process.pid) / 1e6:.0f} MB")


def crowd_and_file(
    asked: argparse.Namespace,
    lines: Sequence[str],
    options: Sequence[str],
    servers: Mapping[str, int],
    languages: tuple[str, str],
) -> None:
    """Compare the sentences/s of many clients of some servers with those of `nmt translate` on the same lines."""
    speeds: dict[str, list[float]] = {name: [] for name in (*servers, "nmt translate")}
    waits: dict[str, list[float]] = {name: [] for name in servers}
    texts = ["\n".join(request) for request in requests_of(lines, asked.request_lines)]
    for number in range(asked.rounds):
        speeds["nmt translate"].append(of_a_file(lines, options))
        for name, port in sorted(servers.items(), reverse=number % 2 == 1):
            began = time.perf_counter()
            waits[name] += waits_of_crowd(port, languages, texts, asked.clients)
            speeds[name].append(len(lines) / (time.perf_counter() - began))
    file = statistics.median(speeds["nmt translate"])
    print(f"nmt translate: {file:.1f} sentences/s")
    for name, own in waits.items():
        speed = statistics.median(speeds[name])
        print(f"{asked.clients} clients, {name}: {speed:.1f} sentences/s; ratio to nmt translate {speed / file:.2f}")
        print(
            f"  an answer takes {1000 * statistics.median(own):.0f} ms in the median, {1000 * high(own):.0f} for 95 %"
        )


def waits_of_crowd(port: int, languages: tuple[str, str], texts: Sequence[str], clients: int) -> list[float]:
    """Return the seconds of each request of some clients at once, each of which asks again when it has its answer."""
    waiting, left, waits = selectors.DefaultSelector(), iter(texts), []

    def ask(client: socket.socket) -> bool:
        """Send the next text, if there is one."""
        if (text := next(left, None)) is None:
            return False
        body = json.dumps({"q": text, "source": languages[0], "target": languages[1]}).encode()
        kind, length = "Content-Type: application/json", f"Content-Length: {len(body)}"
        head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n{length}\r\n\r\n"
        waiting.register(client, selectors.EVENT_READ, (time.perf_counter(), bytearray()))
        client.sendall(head.encode() + body)
        return True

    for _ in range(min(clients, len(texts))):
        ask(socket.create_connection(("127.0.0.1", port)))
    while waiting.get_map():
        ready = waiting.select(timeout=600)
        assert ready, "the server has not answered for ten minutes"
        for key, _ in ready:
            client, (began, answer) = key.fileobj, key.data
            assert isinstance(client, socket.socket)
            data = client.recv(65_536)
            assert data, "the server has closed a connection"
            answer += data
            head, _, body = bytes(answer).partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            if length is None or len(body) < int(length[1]):
                continue
            assert head.startswith(b"HTTP/1.1 200 "), head
            waits.append(time.perf_counter() - began)
            waiting.unregister(client)
            if not ask(client):
                client.close()
    return waits


def requests_of(lines: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return the lines of each request."""
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def search_and_file(asked: argparse.Namespace, lines: Sequence[str]) -> None:
    """Compare the sentences per second of processor time of many clients of a worker with those of a file."""
    from nmt_cli.assembly.trained_translator import open_translator
    from nmt_cli.serve.backend import TranslationBackend
    from nmt_cli.system.workers import ThreadLauncher
    from nmt_cli.translation.sentence_tasks import RequestOptions
    from nmt_cli.translation.shared_search import SharedSearch

    translator = open_translator([asked.model], threads=asked.threads)
    work = SharedSearch([translator], lambda _: work)
    search = TranslationBackend(
        ThreadLauncher(lambda: work), 1, workers=1, max_waiting=len(lines), on_failure=lambda: None
    )
    (engine,) = search.engines
    requests = requests_of(lines, asked.request_lines)

    def of_clients() -> list[str]:
        def ask(request: Sequence[str]) -> list[str]:
            return [found.translations[0].text for found in engine.translate(request, RequestOptions())]

        with ThreadPoolExecutor(asked.clients) as pool:
            return sorted(text for own in pool.map(ask, requests) for text in own)

    def of_the_file() -> list[str]:
        return sorted(found.translations[0].text for found in translator.translate(lines))

    speeds: dict[str, list[float]] = {"clients": [], "file": []}
    ways = {"clients": of_clients, "file": of_the_file}
    texts = {name: way() for name, way in ways.items()}
    assert texts["clients"] == texts["file"]
    for number in range(asked.rounds):
        for name, way in sorted(ways.items(), reverse=number % 2 == 1):
            began = time.process_time()
            way()
            speeds[name].append(len(lines) / (time.process_time() - began))
    search.close()
    for fast, file in zip(speeds["clients"], speeds["file"], strict=True):
        print(f"clients: {fast:.1f} sentences per second of processor time; file: {file:.1f}; ratio {fast / file:.2f}")


def of_a_file(lines: Sequence[str], options: Sequence[str]) -> float:
    """Return sentences/s of `nmt translate --paragraphs`, without its start."""
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(
        (*NMT, "translate", "--paragraphs", *options), input=text, capture_output=True, check=True
    )  # fmt: skip
    found = re.search(r"in ([\d.]+) s: ", done.stderr.decode())
    assert found is not None
    return len(lines) / float(found[1])


def one_and_search(asked: argparse.Namespace, lines: Sequence[str], port: int, languages: tuple[str, str]) -> None:
    """Compare the median latency of a single client with that of the search without a server."""
    from nmt_cli.assembly.trained_translator import open_translator

    translator = open_translator([asked.model], threads=asked.threads)
    some = lines[: asked.alone]
    served: list[float] = []
    searched: list[float] = []
    for line in (some[0], *some):
        began = time.perf_counter()
        translator.translate_window([line.encode()])
        searched.append(time.perf_counter() - began)
        served += latencies(port, languages, [line])
    server, search = (1000 * statistics.median(taken[1:]) for taken in (served, searched))
    print(f"a single client: {server:.1f} ms; the search alone: {search:.1f} ms; ratio {server / search:.2f}")


def beside_a_book(lines: Sequence[str], port: int, languages: tuple[str, str]) -> None:
    """Compare the latency of short requests while a book is being translated with that of the same without it."""
    short = min(lines[:200], key=len)
    alone = statistics.median(latencies(port, languages, [short] * 10))
    began = time.perf_counter()
    ended: list[float] = []

    def read() -> None:
        latencies(port, languages, ["\n".join(lines)])
        ended.append(time.perf_counter() - began)

    book = threading.Thread(target=read)
    book.start()
    time.sleep(0.3)
    beside: list[float] = []
    while book.is_alive():
        beside += latencies(port, languages, [short])
        time.sleep(0.1)
    book.join()
    middle, longest = statistics.median(beside), max(beside)
    print(f"a short request: {1000 * alone:.0f} ms alone; {1000 * middle:.0f} ms beside a book of {len(lines):,} lines")
    share = longest / ended[0]
    print(f"  the longest of {len(beside)} took {longest:.2f} s, the book {ended[0]:.1f} s: {share:.2f} of it")


def latencies(port: int, languages: tuple[str, str], texts: Iterable[str]) -> list[float]:
    """Return the seconds of each request, one after the other over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    taken = []
    for text in texts:
        body = json.dumps({"q": text, "source": languages[0], "target": languages[1]})
        began = time.perf_counter()
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        taken.append(time.perf_counter() - began)
        assert answer.status == 200
    connection.close()
    return taken


def high(taken: Sequence[float]) -> float:
    """Return what 95 % are within."""
    return sorted(taken)[len(taken) * 95 // 100]


@contextmanager
def running(
    nmt: Sequence[str], options: Sequence[str]
) -> Iterator[tuple[int, tuple[str, str], subprocess.Popen[bytes]]]:
    """Give the port of a server, its languages and its process."""
    command = (*nmt, "serve", "--port", "0", "--max-characters", "10000000", *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            lines = (line.decode() for line in process.stderr)
            found = next(match for line in lines if (match := re.match(r"serving (\w+)-(\w+) at .*:(\d+)", line)))
            reader = threading.Thread(target=lambda: [None for _ in lines])  # or the server would stop at a full pipe
            reader.start()
            try:
                yield int(found[3]), (found[1], found[2]), process
            finally:
                process.terminate()
                reader.join()
        finally:
            process.terminate()


def memory(pid: int) -> float:
    """Return the bytes of a process and of those that it has begun; what they share is counted once (PSS)."""
    begun = [int(own) for task in Path(f"/proc/{pid}/task").glob("*/children") for own in task.read_text().split()]
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return own + sum(map(memory, begun))


if __name__ == "__main__":
    main()
