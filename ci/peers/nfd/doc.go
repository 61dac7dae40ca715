// Package nfd gives the rules of driver-build gpus --node-feature-rules to the code of Node Feature
// Discovery (program testdata/labels, a Go module of its own, which keeps the dependencies out of
// the project's), and compares the labels with what package gpulist says. It is test support and
// has no code of its own.
package nfd
