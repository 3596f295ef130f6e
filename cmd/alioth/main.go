// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command alioth is the CNI plugin. It forwards each command to the node's daemon,
// alioth-cnid, and prints the daemon's reply.
package main

import (
	"context"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/alioth-net/alioth/cnid/cniapi"
)

// patience limits one command. It is longer than any default timeout of the daemon,
// and as long as the kubelet waits for the runtime.
const patience = 2 * time.Minute

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add:    forward("ADD"),
		Del:    forward("DEL"),
		Check:  forward("CHECK"),
		GC:     forward("GC"),
		Status: forward("STATUS"),
	}, version.PluginSupports(cniapi.Versions()...), "CNI plugin alioth")
}

func forward(command string) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		client := cniapi.Client{Socket: cniapi.SocketIn(args.StdinData)}
		result, err := client.Do(ctx, cniapi.Request{
			Command:     command,
			ContainerID: args.ContainerID,
			Netns:       args.Netns,
			IfName:      args.IfName,
			Args:        args.Args,
			Path:        args.Path,
			Config:      args.StdinData,
		})
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(result)
		return err
	}
}
