// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/alioth-net/alioth/cnid/nodeipam/deviceplugin"
	"github.com/alioth-net/alioth/test/waits"
)

// kubelet takes registrations with the kubelet's own types and library.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	registered chan *pluginapi.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.registered <- request
	return &pluginapi.Empty{}, nil
}

// startKubelet serves at a socket in a folder until the returned function is called.
func startKubelet(t *testing.T, dir string) (k *kubelet, stop func()) {
	t.Helper()
	k = &kubelet{registered: make(chan *pluginapi.RegisterRequest, 10)}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, k)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return k, server.Stop
}

// within bounds every wait.
const within = 30 * time.Second

// rig is a plugin with a number of devices.
type rig struct {
	dir    string
	count  atomic.Int32
	plugin *deviceplugin.Plugin
}

func start(t *testing.T, count int32) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{dir: dir}
	r.count.Store(count)
	r.plugin = deviceplugin.New(deviceplugin.Config{
		Dir: dir, Resource: "acn.azure.com/vnet-nic", Every: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Count: func() (int, error) { return int(r.count.Load()), nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.plugin.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

// knows returns a client of the plugin that has registered with a kubelet.
func (r *rig) knows(t *testing.T, k *kubelet) pluginapi.DevicePluginClient {
	t.Helper()
	request := waits.Receive(t, within, "the plugin registers", k.registered)
	if request.Version != "v1beta1" || request.ResourceName != "acn.azure.com/vnet-nic" || request.Options.GetPreStartRequired() ||
		request.Options.GetGetPreferredAllocationAvailable() {
		t.Errorf("it registers %v", request)
	}
	connection, err := grpc.NewClient("unix:"+filepath.Join(r.dir, request.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return pluginapi.NewDevicePluginClient(connection)
}

func receive(t *testing.T, stream pluginapi.DevicePlugin_ListAndWatchClient) int {
	t.Helper()
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, device := range list.Devices {
		if ids[device.ID] = true; device.Health != pluginapi.Healthy {
			t.Errorf("device %s is %s", device.ID, device.Health)
		}
	}
	if len(ids) != len(list.Devices) {
		t.Errorf("two devices have one ID: %v", list.Devices)
	}
	return len(ids)
}

// TestDevicePlugin_Kubelet_DevicesCounted uses the kubelet's library at the other end.
func TestDevicePlugin_Kubelet_DevicesCounted(t *testing.T) {
	r := start(t, 2)
	k, _ := startKubelet(t, r.dir)
	client := r.knows(t, k)
	if _, err := client.GetDevicePluginOptions(t.Context(), &pluginapi.Empty{}); err != nil {
		t.Error(err)
	}
	stream, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(t, stream); got != 2 {
		t.Errorf("%d devices at first, want 2", got)
	}
	for _, count := range []int32{3, 0, 1} {
		r.count.Store(count)
		r.plugin.Look()
		if got := receive(t, stream); got != int(count) {
			t.Errorf("%d devices after a change, want %d", got, count)
		}
	}
	answer, err := client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{
		{DevicesIds: []string{"nic-0"}}, {DevicesIds: []string{"nic-1", "nic-2"}},
	}})
	if err != nil || len(answer.ContainerResponses) != 2 {
		t.Errorf("allocated: %v, %v", answer, err)
	}
	if _, err := client.PreStartContainer(t.Context(), &pluginapi.PreStartContainerRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that the options switch off: %v", err)
	}
}

// TestDevicePlugin_KubeletRestart_DevicesRegisteredAgain: it removes the sockets of plugins.
func TestDevicePlugin_KubeletRestart_DevicesRegisteredAgain(t *testing.T) {
	r := start(t, 1)
	k, stop := startKubelet(t, r.dir)
	r.knows(t, k)
	for range 2 {
		stop()
		sockets, err := filepath.Glob(filepath.Join(r.dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, socket := range sockets {
			_ = os.Remove(socket) // or it is gone already
		}
		k, stop = startKubelet(t, r.dir)
		stream, err := r.knows(t, k).ListAndWatch(t.Context(), &pluginapi.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		if got := receive(t, stream); got != 1 {
			t.Errorf("%d devices, want 1", got)
		}
	}
}

// TestDevicePlugin_NoDevices_NotRegistered: it has no resource until it has a device.
func TestDevicePlugin_NoDevices_NotRegistered(t *testing.T) {
	r := start(t, 0)
	k, _ := startKubelet(t, r.dir)
	r.count.Store(1)
	r.plugin.Look()
	stream, err := r.knows(t, k).ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(t, stream); got != 1 {
		t.Errorf("it registered with %d devices, want 1", got)
	}
}
