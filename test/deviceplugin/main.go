// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Deviceplugin offers virtual functions to the kubelet of its node, as the SR-IOV network device
// plugin does: their IDs are addresses on the PCI bus. It offers exactly the given functions, and
// looks for no others. It ends with an error when the kubelet ends, and its starter starts it
// again.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/alioth-net/alioth/test/deviceplugin/offer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "deviceplugin:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := offer.Offer{PCIDevices: "/sys/bus/pci/devices"}
	command := &cobra.Command{
		Use:           "deviceplugin --resource NAME ADDRESS...",
		Short:         "Offer devices on the PCI bus to the kubelet until SIGTERM",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, addresses []string) error {
			o.Addresses = addresses
			return o.Serve(command.Context())
		},
	}
	command.Flags().StringVar(&o.Resource, "resource", "", "name of the extended resource, as vendor.example/name")
	command.Flags().StringVar(&o.Dir, "dir", pluginapi.DevicePluginPath, "the kubelet's folder of device plugins")
	if err := command.MarkFlagRequired("resource"); err != nil {
		panic(err) // there is such a flag
	}
	return command
}
