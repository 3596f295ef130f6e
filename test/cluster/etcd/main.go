// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command etcd is the etcd that Kubernetes is released with. The scale lab runs it. Under the
// names etcdctl and etcdutl it is etcd's commands for snapshots.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "etcdctl":
		ctlv3.MustStart()
	case "etcdutl":
		snapshots()
	default:
		etcdmain.Main(os.Args)
	}
}

func snapshots() {
	command := &cobra.Command{Use: "etcdutl", Short: "Restore snapshots of etcd"}
	command.PersistentFlags().
		StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "format of the output: fields, json, protobuf, simple, table")
	command.AddCommand(etcdutl.NewSnapshotCommand(), etcdutl.NewVersionCommand())
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
