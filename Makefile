# `make demo` and `make test` do all their own set-up on a Debian or Ubuntu machine that has a Rust
# toolchain; what is missing is installed with apt (with sudo where you are not root).

CACHE := $(or $(MAITRED_CACHE),integration/.cache)

help:                ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | column -t -s "$$(printf '\t')" 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):.*## /\1  /p' $(MAKEFILE_LIST)

demo: setup          ## seat a few pods on an emulated four-node machine and show who sits where
	@integration/lane-guest.sh $(CACHE)/payload --demo

test:                ## format, lints, unit tests, conformance, real containerd natively and on four nodes
	@integration/test.sh

test-all:            ## test, that each scenario fails without maitred, and long random runs
	@integration/test.sh all

setup:               ## what demo and test set up: packages, images, the guest's disk, the binaries
	@integration/setup.sh

native: setup        ## the native lane alone; OPTIONS="--only WORD"
	@integration/lane-native.sh $(CACHE)/payload $(OPTIONS)

oci: setup           ## runc and podman of this machine with the wrapper and the hooks
	@integration/lane-oci.sh $(CACHE)/payload

docker: setup        ## Docker, unpacked and not installed, with the wrapper as a runtime
	@integration/lane-docker.sh $(CACHE)/payload

guest: setup         ## the guest lane alone; OPTIONS="--only WORD"
	@integration/lane-guest.sh $(CACHE)/payload $(OPTIONS)

guest-older:         ## the same with containerd 1.7; its disk is built first, OPTIONS="--only WORD"
	@integration/setup.sh older
	@MAITRED_GUEST=older integration/lane-guest.sh $(CACHE)/payload $(OPTIONS)

bench: setup         ## container creation without and with maitred, the daemon itself, podresources, runc run; in pairs
	@integration/payload.sh release
	@integration/lane-native.sh $(CACHE)/payload-release --bench-create 50
	@MAITRED_GUEST_LIMIT=5400 integration/lane-guest.sh $(CACHE)/payload-release --bench-create 6
	@integration/lane-native.sh $(CACHE)/payload-release --bench-podresources 50
	@integration/bench-oci.sh $(CACHE)/payload-release 40

packages:            ## DEB and RPM for x86-64 and aarch64 into target/packages; the first run installs the tools
	@packaging/build.sh

packages-test: packages setup  ## install, upgrade, remove and purge them in roots of their own, and the DEB under systemd
	@integration/setup.sh older
	@integration/lane-packages.sh
	@integration/lane-systemd.sh $(CACHE)/payload

fuzz:                ## ten million executions of the thirteen fuzzing targets; the first run installs the tools
	@tests/fuzz/run.sh

clean:               ## take away everything that was built
	cargo clean
	rm -rf $(CACHE) 2>/dev/null || sudo rm -rf $(CACHE)

.PHONY: help demo test test-all setup native oci docker guest guest-older bench packages packages-test fuzz clean
