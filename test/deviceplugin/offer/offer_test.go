// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet takes registrations as a node's does.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	registered chan *pluginapi.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.registered <- request
	return &pluginapi.Empty{}, nil
}

// node is a folder with a kubelet's socket, and two devices. VFIO drives the second.
type node struct {
	kubelet
	offer Offer
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "offer") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{
		kubelet: kubelet{registered: make(chan *pluginapi.RegisterRequest, 1)},
		offer:   Offer{Resource: "alioth.test/hw", Addresses: []string{"0000:01:10.0", "0000:01:10.2"}, Dir: dir, PCIDevices: t.TempDir()},
	}
	for address, links := range map[string]map[string]string{
		"0000:01:10.0": {"driver": "/drivers/igbvf"},
		"0000:01:10.2": {"driver": "/drivers/vfio-pci", "iommu_group": "/groups/17"},
		"0000:01:10.4": {"driver": "/drivers/vfio-pci"},
	} {
		device := filepath.Join(n.offer.PCIDevices, address)
		if err := os.Mkdir(device, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, target := range links {
			if err := os.Symlink(target, filepath.Join(device, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, n)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return n
}

// serve starts the plugin. It returns a client for it, a function that ends it, and a channel with
// the error of its end.
func (n *node) serve(t *testing.T) (client pluginapi.DevicePluginClient, end func(), ended <-chan error) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- n.offer.Serve(ctx) }()
	var request *pluginapi.RegisterRequest
	select {
	case request = <-n.registered:
	case err := <-result:
		t.Fatal(err)
	}
	if request.Version != "v1beta1" || request.ResourceName != "alioth.test/hw" {
		t.Errorf("it registers %v", request)
	}
	connection, err := grpc.NewClient("unix:"+filepath.Join(n.offer.Dir, request.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return pluginapi.NewDevicePluginClient(connection), end, result
}

// watch asks for the list as a kubelet does, and returns the IDs of the healthy devices.
func watch(ctx context.Context, t *testing.T, client pluginapi.DevicePluginClient) (ids []string) {
	t.Helper()
	stream, err := client.ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range list.Devices {
		if device.Health == pluginapi.Healthy {
			ids = append(ids, device.ID)
		}
	}
	return ids
}

func TestOffer_Allocate_DevicesAndFiles(t *testing.T) {
	client, _, _ := newNode(t).serve(t)
	if diff := cmp.Diff([]string{"0000:01:10.0", "0000:01:10.2"}, watch(t.Context(), t, client)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	answer, err := client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{
		{DevicesIds: []string{"0000:01:10.0"}}, {DevicesIds: []string{"0000:01:10.2"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var files [][]string
	for _, container := range answer.ContainerResponses {
		var paths []string
		for _, device := range container.Devices {
			paths = append(paths, device.HostPath+" "+device.ContainerPath+" "+device.Permissions)
		}
		files = append(files, paths)
	}
	want := [][]string{nil, {"/dev/vfio/vfio /dev/vfio/vfio rw", "/dev/vfio/17 /dev/vfio/17 rw"}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestOffer_UnusableDevice_NotAllocated(t *testing.T) {
	n := newNode(t)
	n.offer.Addresses = append(n.offer.Addresses, "0000:01:10.4")
	client, _, _ := n.serve(t)
	for id, want := range map[string]codes.Code{"0000:01:10.6": codes.NotFound, "0000:01:10.4": codes.FailedPrecondition} {
		_, err := client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{id}}}})
		if status.Code(err) != want || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
}

func TestOffer_Told_EndsWithoutSocket(t *testing.T) {
	n := newNode(t)
	client, end, ended := n.serve(t)
	watch(t.Context(), t, client)
	end()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	files, err := os.ReadDir(n.offer.Dir)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v, want the kubelet's socket alone", files, err)
	}
}

func TestOffer_KubeletEnds_EndsWithError(t *testing.T) {
	client, _, ended := newNode(t).serve(t)
	ctx, kubeletEnds := context.WithCancel(t.Context())
	watch(ctx, t, client)
	kubeletEnds()
	if err := <-ended; !errors.Is(err, errLeft) {
		t.Errorf("it ends with %v", err)
	}
}

func TestOffer_StaleSocket_Replaced(t *testing.T) {
	n := newNode(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(n.offer.Dir, "alioth-test-alioth.test-hw.sock"))
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	client, _, _ := n.serve(t)
	if ids := watch(t.Context(), t, client); len(ids) != 2 {
		t.Errorf("it offers %v", ids)
	}
}

func TestOffer_Unusable_Refused(t *testing.T) {
	for says, change := range map[string]func(*Offer){
		`resource "hw": want a domain and a name`:     func(o *Offer) { o.Resource = "hw" },
		"device 0000:01:10.0 is named twice":          func(o *Offer) { o.Addresses = []string{"0000:01:10.0", "0000:01:10.0"} },
		`device "0000:01:11.0" is not on the PCI bus`: func(o *Offer) { o.Addresses = []string{"0000:01:11.0"} },
	} {
		n := newNode(t)
		change(&n.offer)
		if err := n.offer.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
