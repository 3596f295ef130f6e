// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offer is a device plugin of the kubelet (Kubernetes, "Device Plugins", API
// v1beta1) for devices on the PCI bus.
package offer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubeletSocket is the name of the kubelet's socket in its folder of plugins.
const kubeletSocket = "kubelet.sock"

// patience bounds the registration. A kubelet that starts serves it after a while.
const patience = time.Minute

// vfio is the driver of devices that programs in pods drive.
const vfio = "vfio-pci"

// Offer are devices that pods may request.
type Offer struct {
	// Resource is the name that pods request, as vendor.example/name.
	Resource string
	// Addresses of the devices on the PCI bus, which are their IDs, like 0000:01:10.0.
	Addresses []string
	// Dir is the kubelet's folder of plugins, PCIDevices the kernel's folder of devices.
	Dir, PCIDevices string
}

// Serve offers the devices until ctx ends, and returns nil then. It returns an error when the
// kubelet no longer asks: the kubelet forgets its plugins when it ends.
func (o Offer) Serve(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	name := "alioth-test-" + strings.ReplaceAll(o.Resource, "/", "-") + ".sock"
	socket := filepath.Join(o.Dir, name)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return fmt.Errorf("remove an earlier socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen for the kubelet: %w", err)
	}
	server, service := grpc.NewServer(), &service{offer: o, ending: ctx.Done(), left: make(chan error, 1)}
	pluginapi.RegisterDevicePluginServer(server, service)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop() // which removes the socket
	if err := o.register(ctx, name); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		server.GracefulStop()
		return nil
	case err := <-ended:
		return fmt.Errorf("serve the kubelet: %w", err)
	case err := <-service.left:
		return err
	}
}

// check refuses an offer that no pod could use.
func (o Offer) check() error {
	if domain, name, ok := strings.Cut(o.Resource, "/"); !ok || domain == "" || name == "" {
		return fmt.Errorf("resource %q: want a domain and a name, as vendor.example/name", o.Resource)
	}
	for i, address := range o.Addresses {
		if slices.Contains(o.Addresses[:i], address) {
			return fmt.Errorf("device %s is named twice", address)
		}
		if _, err := os.Stat(filepath.Join(o.PCIDevices, address)); err != nil {
			return fmt.Errorf("device %q is not on the PCI bus: give addresses like 0000:01:10.0: %w", address, err)
		}
	}
	return nil
}

// register tells the kubelet where the plugin serves.
func (o Offer) register(ctx context.Context, socket string) error {
	connection, err := grpc.NewClient(
		"unix:"+filepath.Join(o.Dir, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return fmt.Errorf("prepare a connection to the kubelet: %w", err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: socket, ResourceName: o.Resource, Options: &pluginapi.DevicePluginOptions{},
	}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("register %s with the kubelet at %s: %w", o.Resource, o.Dir, err)
	}
	return nil
}

// files returns the device files that a container needs for a device: the files of VFIO for a
// device that a program in it drives, and none for a network device.
func (o Offer) files(address string) ([]*pluginapi.DeviceSpec, error) {
	device := filepath.Join(o.PCIDevices, address)
	if target, err := os.Readlink(filepath.Join(device, "driver")); err != nil || filepath.Base(target) != vfio {
		return nil, nil //nolint:nilerr // a device without a driver has no files
	}
	group, err := os.Readlink(filepath.Join(device, "iommu_group"))
	if err != nil {
		return nil, fmt.Errorf("device %s has the driver %s and no group of the IOMMU: %w", address, vfio, err)
	}
	var specs []*pluginapi.DeviceSpec
	for _, file := range []string{"/dev/vfio/vfio", "/dev/vfio/" + filepath.Base(group)} {
		specs = append(specs, &pluginapi.DeviceSpec{HostPath: file, ContainerPath: file, Permissions: "rw"})
	}
	return specs, nil
}
