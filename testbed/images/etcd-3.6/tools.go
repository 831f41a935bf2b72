//go:build tools

// Package tools names the programs that the testbed's etcd image holds, so that
// go.mod and go.sum pin them and everything they need.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "go.etcd.io/etcd/v3/tools/benchmark"
)
