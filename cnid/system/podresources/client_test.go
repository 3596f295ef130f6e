// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/alioth-net/alioth/cnid/system/podresources"
)

// kubelet serves the API with the kubelet's own types.
type kubelet struct {
	api.UnimplementedPodResourcesListerServer
	pods []*api.PodResources
	// getFails is the error of Get, nil for none.
	getFails error
	// asked are the methods that were called.
	asked []string
}

func (k *kubelet) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	k.asked = append(k.asked, "List")
	return &api.ListPodResourcesResponse{PodResources: k.pods}, nil
}

func (k *kubelet) Get(_ context.Context, in *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	k.asked = append(k.asked, "Get")
	for _, pod := range k.pods {
		if k.getFails == nil && pod.Namespace == in.PodNamespace && pod.Name == in.PodName {
			return &api.GetPodResourcesResponse{PodResources: pod}, nil
		}
	}
	if k.getFails != nil {
		return nil, k.getFails
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found: 100 %% of the names", in.PodName, in.PodNamespace)
}

// serve starts a kubelet, and returns a client for it.
func serve(t *testing.T, k *kubelet) *podresources.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client := podresources.New(socket)
	t.Cleanup(client.Close)
	return client
}

func devices(resource string, ids ...string) *api.ContainerDevices {
	return &api.ContainerDevices{ResourceName: resource, DeviceIds: ids, Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: 1}}}}
}

func somePods() []*api.PodResources {
	return []*api.PodResources{
		{Namespace: "b", Name: "p", Containers: []*api.ContainerResources{{Name: "c", Devices: []*api.ContainerDevices{devices("x/vf", "0000:9:0.0")}}}},
		{Namespace: "a", Name: "p", CpuIds: []int64{1, 2}, Containers: []*api.ContainerResources{
			{Name: "c", CpuIds: []int64{3}, Memory: []*api.ContainerMemory{{MemoryType: "memory", Size: 9}}, Devices: []*api.ContainerDevices{
				devices("x/vf", "0000:03:10.3"), devices("x/vf", "0000:03:10.1"), devices("x/gpu", "g1", "g0"),
			}},
			{Name: "d", Devices: []*api.ContainerDevices{devices("x/vf", "0000:03:10.2"), devices("x/none")}},
		}},
		{Namespace: "a", Name: "q"},
	}
}

func TestPodResources_SeveralContainers_AllDevicesReturned(t *testing.T) {
	want := podresources.Devices{"x/vf": {"0000:03:10.1", "0000:03:10.2", "0000:03:10.3"}, "x/gpu": {"g0", "g1"}}
	for name, tc := range map[string]struct {
		getFails error
		asked    []string
	}{
		"by Get":                           {nil, []string{"Get"}},
		"by List, where Get is turned off": {errors.New("PodResources API Get method disabled"), []string{"Get", "List"}},
		"by List, where the kubelet has no Get at all": {status.Error(codes.Unimplemented, "unknown method Get"), []string{"Get", "List"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kubelet{pods: somePods(), getFails: tc.getFails}
			got, err := serve(t, k).Devices(t.Context(), "a", "p")
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(tc.asked, k.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodResources_NoDevices_None(t *testing.T) {
	client := serve(t, &kubelet{pods: somePods()})
	for _, name := range []string{"q", "unknown"} {
		if got, err := client.Devices(t.Context(), "a", name); err != nil || len(got) != 0 {
			t.Errorf("pod %s has %v, %v", name, got, err)
		}
	}
}

func TestPodResources_LargeAnswer_AcceptedUpToLimit(t *testing.T) {
	many := func(pods int) []*api.PodResources {
		list := somePods()
		for i := range pods {
			list = append(list, &api.PodResources{Namespace: "c", Name: fmt.Sprint(i), Containers: []*api.ContainerResources{
				{Devices: []*api.ContainerDevices{devices("x/vf", strings.Repeat("i", 1<<20))}},
			}})
		}
		return list
	}
	disabled := errors.New("disabled")
	if got, err := serve(t, &kubelet{pods: many(8), getFails: disabled}).Devices(t.Context(), "a", "p"); err != nil || len(got["x/vf"]) != 3 {
		t.Errorf("8 MiB: %d devices, %v", len(got["x/vf"]), err)
	}
	if _, err := serve(t, &kubelet{pods: many(17), getFails: disabled}).Devices(t.Context(), "a", "p"); err == nil ||
		!strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("17 MiB: %v", err)
	}
}

func TestPodResources_KubeletSilent_Explained(t *testing.T) {
	client := podresources.New(filepath.Join(t.TempDir(), "missing.sock"))
	if _, err := client.Devices(t.Context(), "a", "p"); err == nil || !strings.Contains(err.Error(), "is the folder mounted") {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := serve(t, &kubelet{}).Devices(ended, "a", "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
