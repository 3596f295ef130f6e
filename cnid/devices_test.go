// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// allocations are the devices that a kubelet has allocated to pods. Get is not implemented, as
// in Kubernetes before 1.34.
type allocations struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	pods []*podresourcesv1.PodResources
}

// give allocates a device of a resource to a pod.
func (a *allocations) give(namespace, name, resource, id string) {
	a.pods = append(a.pods, &podresourcesv1.PodResources{Namespace: namespace, Name: name, Containers: []*podresourcesv1.ContainerResources{{
		Name: "c", Devices: []*podresourcesv1.ContainerDevices{{ResourceName: resource, DeviceIds: []string{id}}},
	}}})
}

// List implements podresourcesv1.PodResourcesListerServer.
func (a *allocations) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return &podresourcesv1.ListPodResourcesResponse{PodResources: a.pods}, nil
}

// serve returns the socket at which the allocations are answered.
func (a *allocations) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, a)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return socket
}

// believing decides by the requests of pods alone: each has as many interfaces on devices of
// x/vf as its containers request, whatever the kubelet has allocated.
type believing struct {
	attachment.Datapath
	requests map[string]int
}

func (b believing) Await(_ context.Context, pod journal.Pod) (list []attachment.Decision, _ error) {
	for i := range b.requests[pod.Namespace+"/"+pod.Name] {
		list = append(list, attachment.Decision{
			Attachment: fmt.Sprintf("eth%d", i), Binding: journal.Binding{Outside: "fast"},
			Interface: journal.Interface{Kind: attachmenttest.Kind, MAC: journal.MAC{2, 0, 0, 0, 7, byte(i)}, Config: netif.Config{Pool: "x/vf"}},
		})
	}
	return list, nil
}

func (believing) Confirm([]journal.Record) error                       { return nil }
func (believing) Check(journal.Record) error                           { return nil }
func (believing) Release(journal.Record)                               {}
func (believing) ProgramSockets(context.Context, journal.Record) error { return nil }
func (believing) UnprogramSockets()                                    {}

// TestDeviceRequest_OtherPodsDevice_NotTaken: a tenant writes requests of devices into its pods, as
// many and of whatever resource, and says that these pods belong to another tenant. The operator
// has believed all of it. Only the kubelet gives devices.
func TestDeviceRequest_OtherPodsDevice_NotTaken(t *testing.T) {
	const victims, others, own = "0000:03:10.1", "0000:03:10.2", "0000:03:10.3"
	kubelet := &allocations{}
	kubelet.give("bank", "web", "x/vf", victims)
	kubelet.give("shop", "slow", "x/slow", others)
	kubelet.give("shop", "greedy", "x/vf", own)
	space, log := netnstest.New(t), slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), journal.Config{Path: filepath.Join(t.TempDir(), "journal"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	b := believing{requests: map[string]int{"bank/web": 1, "shop/web": 1, "shop/slow": 1, "shop/greedy": 2, "shop/none": 1000}}
	m := attachment.New(attachment.Config{
		Journal: j, Log: log, Metrics: attachment.NewMetrics(prometheus.NewRegistry()),
		Drivers:   ifdriver.Drivers{attachmenttest.Kind: attachmenttest.Driver{Sandboxes: func() []string { return []string{space.Path} }}},
		Decisions: b, Datapath: b, Releaser: b, Devices: Config{SRIOV: true, PodResources: kubelet.serve(t)}.devices(),
	})
	add := func(namespace, name string) error {
		_, err := m.Establish(t.Context(), attachment.Request{
			Key: journal.Key{ContainerID: namespace + "-" + name, IfName: "eth0"}, Pod: journal.Pod{Namespace: namespace, Name: name, UID: name},
			Network: "alioth", NetnsPath: space.Path,
		})
		return err
	}
	attack := func() {
		t.Helper()
		for name, has := range map[string]int{"web": 0, "slow": 0, "greedy": 1, "none": 0} {
			var notReady *attachment.NotReady
			want := fmt.Sprintf("has allocated %d device(s) of x/vf", has)
			if err := add("shop", name); !errors.As(err, &notReady) || !strings.Contains(err.Error(), want) {
				t.Errorf("pod shop/%s: %v, want %q", name, err, want)
			}
		}
		for _, record := range j.Records() {
			if record.Pod.Namespace == "shop" {
				t.Errorf("pod shop/%s has %s", record.Pod.Name, record.PCI)
			}
		}
	}
	attack()
	if err := add("bank", "web"); err != nil {
		t.Fatalf("the pod that has the device: %v", err)
	}
	attack()
	if records := j.Records(); len(records) != 1 || records[0].Pod.Namespace != "bank" || records[0].PCI != victims {
		t.Errorf("the journal has %+v", records)
	}
}
