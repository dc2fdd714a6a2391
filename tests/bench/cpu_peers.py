# SPDX-License-Identifier: Apache-2.0
"""Times infer against onnxruntime, PyTorch and OpenVINO on a CPU, in one run.

usage: cpu_peers.py BUILD_DIR [--models a,b] [--batches 1,8] [--threads 1,2]
                    [--seconds 2] [--rounds 3] [--openvino PYTHON] [--least]
                    [--out results.md]

Needs torch, torchvision, onnx, onnxscript and onnxruntime; --openvino names an
interpreter that has openvino.  Each network has random weights (of its own
initialisation) and is exported to ONNX once; wconv converts that file,
onnxruntime and OpenVINO (latency, one stream) run it, PyTorch runs the module.
A round times all one after the other, each in a fresh process, so that a drift
of the machine meets all; the table shows the median over the rounds of each
median, or, with --least, the least time of all, for a machine that is busy."""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

MODELS = ('resnet50', 'resnet18', 'vgg16', 'mobilenet_v2', 'squeezenet1_1',
          'efficientnet_b0')


def export(name, path):
    import torch
    import torchvision
    torch.manual_seed(0)
    m = getattr(torchvision.models, name)(weights=None).eval()
    x = torch.randn(2, 3, 224, 224)
    torch.onnx.export(m, (x,), path, input_names=['x'], output_names=['y'],
                      dynamo=True, external_data=False,
                      dynamic_shapes=({0: torch.export.Dim('N')},),
                      opset_version=18, verbose=False)


def timed(run, seconds):
    end = time.perf_counter() + 0.3
    run()
    while time.perf_counter() < end:
        run()
    times = []
    least = os.environ.get('PEERS_LEAST')
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        t = time.perf_counter()
        run()
        times.append(time.perf_counter() - t)
    return 1e3 * (min(times) if least else statistics.median(times))


def peer_ort(path, batch, threads, seconds):
    import numpy as np
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = threads
    o.inter_op_num_threads = 1
    s = ort.InferenceSession(path, o, providers=['CPUExecutionProvider'])
    x = np.random.default_rng(0).standard_normal((batch, 3, 224, 224)) \
        .astype(np.float32)
    return timed(lambda: s.run(None, {'x': x}), seconds)


def peer_torch(name, batch, threads, seconds):
    """The best of both layouts, as it is and frozen."""
    import torch
    import torchvision
    torch.set_num_threads(threads)
    best = None
    with torch.inference_mode():
        for layout in (torch.contiguous_format, torch.channels_last):
            torch.manual_seed(0)
            # A module is turned where it is: each layout has its own.
            m = getattr(torchvision.models, name)(weights=None).eval() \
                .to(memory_format=layout)
            x = torch.randn(batch, 3, 224, 224).to(memory_format=layout)
            frozen = torch.jit.optimize_for_inference(torch.jit.trace(m, x))
            for v in (m, frozen):
                t = timed(lambda v=v: v(x), seconds / 4)
                best = t if best is None else min(best, t)
    return best


def peer_openvino(path, batch, threads, seconds):
    import numpy as np
    import openvino as ov
    core = ov.Core()
    m = core.read_model(path)
    m.reshape([batch, 3, 224, 224])
    compiled = core.compile_model(m, 'CPU', {
        'INFERENCE_NUM_THREADS': threads, 'NUM_STREAMS': 1,
        'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_PRECISION_HINT': 'f32'})
    request = compiled.create_infer_request()
    x = np.random.default_rng(0).standard_normal((batch, 3, 224, 224)) \
        .astype(np.float32)
    return timed(lambda: request.infer([x], share_inputs=True), seconds)


def ours(build, model, batch, threads, seconds):
    out = subprocess.run(
        [f'{build}/infer', '-m', model, '--bench', '-b', str(batch),
         '--threads', str(threads), '--duration', f'{seconds}s', '--json'],
        check=True, capture_output=True, text=True,
        env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    return json.loads(out.stdout)[
        'min_ms' if os.environ.get('PEERS_LEAST') else 'median_ms']


def fresh(*args, python=sys.executable):
    """One measurement of a rival in a process of its own."""
    out = subprocess.run([python, __file__, '--worker', *map(str, args)],
                         check=True, capture_output=True, text=True,
                         env=dict(os.environ, OMP_NUM_THREADS=str(args[3])))
    return float(out.stdout.split()[-1])


# A child's peak starts at its parent's size, so a small parent starts it.
SMALL_PARENT = """
import os, subprocess, sys, time
t = time.perf_counter()
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(p.pid, 0)
print(time.perf_counter() - t, usage.ru_maxrss / 1024, status)
"""


def first_result(command):
    """Seconds and peak MiB of a whole process."""
    out = subprocess.run([sys.executable, '-S', '-c', SMALL_PARENT, *command],
                         check=True, capture_output=True, text=True)
    seconds, peak, status = out.stdout.split()
    if status != '0':
        raise RuntimeError(f'{command} failed')
    return float(seconds), float(peak)


def cold(build, model, onnx, name):
    ort = ('import numpy as np, onnxruntime as o\n'
           f's = o.InferenceSession({onnx!r}, '
           'providers=["CPUExecutionProvider"])\n'
           's.run(None, {"x": np.zeros((1, 3, 224, 224), np.float32)})')
    torch = ('import torch, torchvision\n'
             f'm = torchvision.models.{name}(weights=None).eval()\n'
             'm.load_state_dict(torch.load("%s.pth"))\n'
             'torch.inference_mode().__enter__()\n'
             'm(torch.zeros(1, 3, 224, 224))' % onnx)
    rows = []
    for command in ([f'{build}/infer', '-m', model, '--bench', '--warmup=0',
                     '--duration=0'],
                    [sys.executable, '-c', ort],
                    [sys.executable, '-c', torch]):
        runs = [first_result(command) for _ in range(4)][1:]
        rows.append((statistics.median(r[0] for r in runs),
                     statistics.median(r[1] for r in runs)))
    return rows


def installed_infer(build):
    """MiB of the stripped program and of the libraries that it loads beyond
    the C library's, which every process has."""
    with tempfile.TemporaryDirectory() as d:
        tool = os.path.join(d, 'infer')
        # A program built with shared libraries is a script beside itself.
        real = f'{build}/.libs/infer'
        if not os.path.exists(real):
            real = f'{build}/infer'
        subprocess.run(['strip', '-o', tool, real], check=True)
        total = os.path.getsize(tool)
    out = subprocess.run(['ldd', real], check=True, capture_output=True,
                         text=True).stdout
    libraries = []
    for line in out.splitlines():
        words = line.split()
        if '=>' in words and words[2].startswith('/') and not re.match(
                r'lib(c|m|dl|pthread|rt)\.so', words[0]):
            libraries.append(os.path.realpath(words[2]))
    total += sum(os.path.getsize(f) for f in set(libraries))
    return total / 2**20


def installed_python(package):
    """MiB of a Python package with all that it requires, and of Python."""
    from importlib import metadata
    seen, todo, total = set(), [package], 0
    while todo:
        name = re.sub(r'[-_.]+', '-', todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            d = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # a requirement of other systems
        for f in d.files or []:
            path = f.locate()
            if os.path.isfile(path) and not str(f).endswith('.pyc'):
                total += os.path.getsize(path)
        for r in d.requires or []:
            if 'extra ==' not in r:
                todo.append(re.match(r'[\w.-]+', r).group())
    python = os.path.getsize(os.path.realpath(sys.executable))
    for folder, folders, files in os.walk(sysconfig.get_path('stdlib')):
        folders[:] = [f for f in folders
                      if f not in ('__pycache__', 'site-packages',
                                   'dist-packages', 'test')]
        python += sum(os.path.getsize(os.path.join(folder, f)) for f in files)
    return total / 2**20, python / 2**20


def worker(args):
    kind, what, batch, threads, seconds = args
    f = {'ort': peer_ort, 'torch': peer_torch, 'openvino': peer_openvino}[kind]
    print(f(what, int(batch), int(threads), float(seconds)))


def cpu_name():
    for line in open('/proc/cpuinfo'):
        if line.startswith('model name'):
            return line.split(':')[1].strip()
    return platform.processor()


def main():
    if sys.argv[1:2] == ['--worker']:
        return worker(sys.argv[2:])
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--models', default=','.join(MODELS))
    p.add_argument('--batches', default='1,8')
    p.add_argument('--threads', default='1,2')
    p.add_argument('--seconds', type=float, default=2)
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--cache', default=os.path.join(tempfile.gettempdir(),
                                                   'cpu_peers'))
    p.add_argument('--openvino', metavar='PYTHON')
    p.add_argument('--least', action='store_true')
    p.add_argument('--out')
    a = p.parse_args()
    if a.least:
        os.environ['PEERS_LEAST'] = '1'
    peers = ['onnxruntime', 'PyTorch'] + ['OpenVINO'] * bool(a.openvino)
    versions = []
    if a.openvino:
        versions = subprocess.run(
            [a.openvino, '-c', 'import openvino; print(openvino.__version__)'],
            check=True, capture_output=True, text=True).stdout.split('-')[:1]
        versions = [f'OpenVINO {v}' for v in versions]
    os.makedirs(a.cache, exist_ok=True)
    import onnxruntime
    import torch
    lines = [f'Date {time.strftime("%Y-%m-%d")}; {cpu_name()}, '
             f'{os.cpu_count()} cores; ' +
             ', '.join([f'onnxruntime {onnxruntime.__version__}',
                        f'PyTorch {torch.__version__}', *versions]) + '.', '',
             f'`tests/bench/cpu_peers.py BUILD_DIR --seconds {a.seconds} '
             f'--rounds {a.rounds}{" --least" * a.least}`', '',
             f'Milliseconds a batch, {"least" if a.least else "median"}; '
             'ratio above 1: infer is faster.',
             '', '| network | batch | threads | infer | ' + ' | '.join(peers) +
             ' | ' + ' | '.join(f'{p} / infer' for p in peers) + ' |',
             '|---' * (4 + 2 * len(peers)) + '|']
    print('\n'.join(lines), flush=True)
    colds = []
    for name in a.models.split(','):
        onnx, model = f'{a.cache}/{name}.onnx', f'{a.cache}/{name}.infer'
        if not os.path.exists(onnx):
            export(name, onnx)
        subprocess.run([f'{a.build}/wconv', onnx, '-o', model, '-q'],
                       check=True)
        for batch in a.batches.split(','):
            for threads in a.threads.split(','):
                rounds = [(ours(a.build, model, batch, threads, a.seconds),
                           fresh('ort', onnx, batch, threads, a.seconds),
                           fresh('torch', name, batch, threads, a.seconds),
                           *([fresh('openvino', onnx, batch, threads,
                                    a.seconds, python=a.openvino)]
                             if a.openvino else []))
                          for _ in range(a.rounds)]
                m = [(min if a.least else statistics.median)(column)
                     for column in zip(*rounds)]
                line = (f'| {name} | {batch} | {threads} | ' +
                        ' | '.join(f'{x:.2f}' for x in m) + ' | ' +
                        ' | '.join(f'{x / m[0]:.2f}' for x in m[1:]) + ' |')
                print(line, flush=True)
                lines.append(line)
        if name in ('resnet50', 'mobilenet_v2'):
            import torchvision
            torch.manual_seed(0)
            torch.save(getattr(torchvision.models, name)(weights=None)
                       .state_dict(), onnx + '.pth')
            colds.append((name, cold(a.build, model, onnx, name)))
    lines += ['', 'Whole process from start to its first result (batch 1, all '
              'cores; files in the page cache): seconds and peak MiB.', '',
              '| network | infer | onnxruntime | PyTorch |', '|---|---|---|---|']
    for name, rows in colds:
        lines.append(f'| {name} | ' + ' | '.join(
            f'{s:.3f} s, {m:.0f} MiB' for s, m in rows) + ' |')
    sizes = [installed_infer(a.build)]
    for package in ('onnxruntime', 'torch'):
        package, python = installed_python(package)
        sizes.append(f'{package:.0f} + {python:.0f}')
    lines += ['', 'Installed size in MiB: infer and the libraries that it '
              'loads beyond the C library; the Python packages with what they '
              'require + Python itself without its tests.', '',
              '| infer | onnxruntime | PyTorch |', '|---|---|---|',
              f'| {sizes[0]:.0f} | {sizes[1]} | {sizes[2]} |']
    print('\n'.join(lines[-8 - len(colds):]))
    if a.out:
        with open(a.out, 'w') as f:
            f.write('# CPU: infer beside onnxruntime and PyTorch\n\n' +
                    '\n'.join(lines) + '\n')


main()
