# Everything that CI runs is `make test`.

build: ## the binary, ./rabbitctl
	CGO_ENABLED=0 go build -trimpath -o rabbitctl .

test: lint ## everything that CI runs; gets and starts the brokers (Linux, as root or with sudo) unless RABBITCTL_TEST_BROKERS names some
	@if [ -n "$$RABBITCTL_TEST_BROKERS" ]; then dev/test all; else dev/broker run -- dev/test all; fi

test-fast: ## the tests that need no broker
	@dev/test fast

test-long: ## all tests, those too that take minutes each
	@if [ -n "$$RABBITCTL_TEST_BROKERS" ]; then dev/test long; else dev/broker run -- dev/test long; fi

lint: ## formatting, vet, staticcheck, generated files
	@dev/check

brokers: ## get the brokers for the tests
	@dev/broker install

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build test test-fast test-long lint brokers help
