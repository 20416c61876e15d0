module dutycycle.io/tests/cert-manager

go 1.19

require github.com/cert-manager/cert-manager v1.21.2
