// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command alioth is the CNI plugin. It forwards each command to the node's daemon, alioth-cnid, and
// prints the daemon's reply. Under the name alioth-ipam it is the IPAM plugin of delegates, which
// needs no daemon, and of other configurations. For these it asks the daemon's node IPAM API.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	cniversion "github.com/containernetworking/cni/pkg/version"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/ipam"
)

// patience limits one command. It is longer than any default timeout of the daemon,
// and as long as the kubelet waits for the runtime.
const patience = 2 * time.Minute

func main() {
	if filepath.Base(os.Args[0]) == ipamconf.Type {
		ipam.Main()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Fprintln(os.Stdout, version.Get())
		return
	}
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add:    forward("ADD"),
		Del:    forward("DEL"),
		Check:  forward("CHECK"),
		GC:     forward("GC"),
		Status: forward("STATUS"),
	}, cniversion.PluginSupports(cniapi.Versions()...), "CNI plugin alioth")
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
