// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/waits"
)

// smallFlood is how many objects of each kind a flood has by default. ALIOTH_FLOOD=10000
// has the figures of docs/design/123.
const smallFlood = 20

// floods are what a tenant can make without limit, by their names.
var floods = []struct {
	name string
	make func(namespace, name string) client.Object
}{
	{"nothing", nil},
	{"pods that wait", func(namespace, name string) client.Object {
		pod := newPod(namespace, name, "missing", "")
		pod.Spec.NodeName = "node-1"
		return pod
	}},
	{"pods without a node", func(namespace, name string) client.Object { return newPod(namespace, name, "missing", "") }},
	{"Networks", func(namespace, name string) client.Object { return newNetwork(namespace, name, "missing") }},
	{"TenantNetworks", func(namespace, name string) client.Object {
		network := &danmv1.TenantNetwork{Spec: danmv1.NetworkSpec{NetworkID: "flood", Options: danmv1.NetworkOptions{
			HostDevice: "flood0", CIDR: "10.0.0.0/16",
		}}}
		network.Namespace, network.Name = namespace, name
		return network
	}},
	{"definitions", func(namespace, name string) client.Object {
		def := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"1.0.0","type":"macvlan","master":"flood0","vlan":7}`}}
		def.Namespace, def.Name = namespace, name
		return def
	}},
	{"Services with annotations", func(namespace, name string) client.Object {
		service := headless(namespace, name)
		service.Annotations = map[string]string{"danm.k8s.io/selector": `{"app":"web"}`, "danm.k8s.io/network": "missing"}
		return service
	}},
	{"EndpointSlices", func(namespace, name string) client.Object {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.77.0.9"}}}}
		slice.Namespace, slice.Name, slice.Labels = namespace, name, map[string]string{discoveryv1.LabelServiceName: "flood"}
		return slice
	}},
}

// headless is a Service without a ClusterIP, of which a cluster has few.
func headless(namespace, name string) *corev1.Service {
	service := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
	service.Namespace, service.Name = namespace, name
	return service
}

// TestAFloodOfATenantDelaysNoOther has a tenant make many objects of a kind, and change one
// all the time, while another tenant starts pods. It prints what that costs.
func TestAFloodOfATenantDelaysNoOther(t *testing.T) {
	count := smallFlood
	if text := os.Getenv("ALIOTH_FLOOD"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for i, flood := range floods {
		t.Run(flood.name, func(t *testing.T) {
			f := newFlooded(t, fmt.Sprintf("flood%d", i))
			if flood.make != nil {
				f.each(count, func(i int) error {
					return f.Create(t.Context(), flood.make(f.hostile, fmt.Sprintf("x%d", i)))
				})
			}
			f.start(1) // the operator has heard of the flood
			f.measure(count)
		})
	}
}

// flooded is a cluster with a hostile tenant and another one.
type flooded struct {
	*rig
	hostile, calm string
	pods          int
}

func newFlooded(t *testing.T, name string) *flooded {
	r := newRig(t)
	r.config = rest.CopyConfig(r.config)
	r.config.QPS, r.config.Burst = -1, 0
	quick, err := client.New(r.config, client.Options{Scheme: r.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	r.Client = quick
	r.operate(testConfig())
	f := &flooded{rig: r, hostile: name + "-hostile", calm: name + "-calm"}
	r.create(
		newNamespace(f.hostile, f.hostile), newNamespace(f.calm, f.calm),
		newVPC(f.calm, []string{f.calm}, "10.0.0.0/16"), newSubnet(f.calm, f.calm, "net1", "10.0.0.0/18"), newNetwork(f.calm, "default", f.calm),
	)
	t.Cleanup(func() { f.clear() })
	f.start(1)
	return f
}

// clear removes what later floods would count.
func (f *flooded) clear() {
	for _, object := range []client.Object{
		&corev1.Pod{}, newNetwork("", "", ""), &danmv1.TenantNetwork{}, &nadv1.NetworkAttachmentDefinition{}, &discoveryv1.EndpointSlice{},
	} {
		for _, namespace := range []string{f.hostile, f.calm} {
			if err := f.DeleteAllOf(context.Background(), object, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
				f.t.Log(err)
			}
		}
	}
}

// each runs a number of steps, many at once.
func (f *flooded) each(count int, step func(i int) error) {
	f.t.Helper()
	var wait sync.WaitGroup
	next := make(chan int)
	for range 32 {
		wait.Go(func() {
			for i := range next {
				if err := step(i); err != nil {
					f.t.Error(err)
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	wait.Wait()
}

// start starts pods of the calm tenant one after the other, each until the operator has told
// it its address, and returns how long each took.
func (f *flooded) start(count int) []time.Duration {
	f.t.Helper()
	var took []time.Duration
	for range count {
		f.pods++
		pod := newPod(f.calm, fmt.Sprintf("web%d", f.pods), "", "")
		pod.Spec.NodeName = "node-1"
		began := time.Now()
		f.create(pod)
		f.awaitAddress(pod)
		took = append(took, time.Since(began))
	}
	return took
}

// awaitAddress looks at a pod more often than eventually does.
func (f *flooded) awaitAddress(pod *corev1.Pod) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), waits.Limit(within))
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := f.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			f.t.Fatal(err)
		}
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "alioth.dev/NetworkReady" && c.Status == "True" }) {
			return
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("pod %s has no address: %+v", pod.Name, pod.Status.Conditions)
		case <-tick.C:
		}
	}
}

// measure starts pods of the calm tenant while the hostile one changes a Network.
func (f *flooded) measure(count int) {
	f.t.Helper()
	ctx, end := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.churn(ctx) }()
	before, began := cpu(f.t), time.Now()
	took := f.start(min(count, 100))
	used, elapsed := cpu(f.t)-before, time.Since(began)
	end()
	if err := <-ended; err != nil {
		f.t.Error(err)
	}
	slices.Sort(took)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.t.Logf("%6d: p50 %s, p99 %s; CPU %.0f %% of a core; heap %d MiB", count, took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond),
		100*used.Seconds()/elapsed.Seconds(), memory.HeapAlloc>>20)
}

// churn makes and deletes a Network of the hostile tenant until ctx ends.
func (f *flooded) churn(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		network := newNetwork(f.hostile, fmt.Sprintf("churn%d", i), "missing")
		network.CreationTimestamp = metav1.Time{}
		err := errors.Join(f.Create(ctx, network), client.IgnoreNotFound(f.Delete(ctx, network)))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err != nil {
				return err
			}
		}
	}
}

// cpu is the time that this process, in which the operator runs, has used of the processors.
func cpu(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
