// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command etcd is the etcd that Kubernetes is released with. The scale lab runs it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
