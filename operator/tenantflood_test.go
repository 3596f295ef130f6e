// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
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
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/waits"
)

// smallFlood is how many objects of each kind a flood has by default. ALIOTH_FLOOD=10000
// has the figures of docs/design/123.
const smallFlood = 20

// floods are the objects that a tenant can make without limit, by their names.
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
		def := &nadv1.NetworkAttachmentDefinition{
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"1.0.0","type":"macvlan","master":"flood0","vlan":7}`},
		}
		def.Namespace, def.Name = namespace, name
		return def
	}},
	{"Services with annotations", func(namespace, name string) client.Object {
		service := headless(namespace, name)
		service.Annotations = map[string]string{"danm.k8s.io/selector": `{"app":"web"}`, "danm.k8s.io/network": "missing"}
		return service
	}},
	{"Services that select a pod", func(namespace, name string) client.Object { return selecting(namespace, name, "flood") }},
	{"Services with external IPs", func(namespace, name string) client.Object {
		service := headless(namespace, name)
		service.Spec.ExternalIPs = []string{"198.51.100.1"}
		return service
	}},
	{"DanmNets", func(namespace, name string) client.Object {
		network := &danmv1.DanmNet{Spec: danmv1.NetworkSpec{NetworkType: "macvlan", NetworkID: "flood", Options: danmv1.NetworkOptions{
			HostDevice: "flood1", CIDR: "10.0.0.0/16",
		}}}
		network.Namespace, network.Name = namespace, name
		return network
	}},
	{"PodNetworkInstances", func(namespace, name string) client.Object {
		instance := instanceOf(name, 1)
		instance.Namespace, instance.Spec.PodNetworkConfigs[0].PodNetwork = namespace, "flood"
		return instance
	}},
	{"EndpointSlices", func(namespace, name string) client.Object {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.77.0.9"}}}}
		slice.Namespace, slice.Name, slice.Labels = namespace, name, map[string]string{discoveryv1.LabelServiceName: "flood"}
		return slice
	}},
}

// headless returns a Service without a ClusterIP: the cluster has few of these addresses.
func headless(namespace, name string) *corev1.Service {
	service := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
	service.Namespace, service.Name = namespace, name
	return service
}

// selecting returns a headless Service whose endpoints are the pods with the label app in the VPC
// with the name of the namespace.
func selecting(namespace, name, app string) *corev1.Service {
	service := headless(namespace, name)
	service.Annotations = map[string]string{"alioth.dev/selector": fmt.Sprintf(`{"app": %q}`, app), "alioth.dev/network": "VPC/" + namespace}
	return service
}

// TestTenant_Floods_OthersNotDelayed has a tenant make many objects of a kind, and change one all the
// time, while another tenant starts pods. It prints the costs.
func TestTenant_Floods_OthersNotDelayed(t *testing.T) {
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
			f.start(f.calm, "first") // the operator has heard of the flood
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
	cfg := testConfig()
	cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "flood"
	r.operate(cfg)
	f := &flooded{rig: r, hostile: name + "-hostile", calm: name + "-calm"}
	for _, name := range []string{f.hostile, f.calm} {
		r.create(
			newNamespace(name, name),
			newVPC(name, []string{name}, "10.0.0.0/16"),
			newSubnet(name, name, "net1", "10.0.0.0/18"),
			newNetwork(name, "default", name),
		)
	}
	t.Cleanup(f.clear)
	f.start(f.hostile, "flood")
	return f
}

// clear removes the objects that later floods would count.
func (f *flooded) clear() {
	for _, object := range []client.Object{
		&corev1.Pod{}, newNetwork("", "", ""), &danmv1.TenantNetwork{}, &danmv1.DanmNet{}, &nadv1.NetworkAttachmentDefinition{}, &discoveryv1.EndpointSlice{},
		&multitenancyv1alpha1.PodNetworkInstance{},
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

// start starts a pod, and returns how long it took until the operator had told it its address.
func (f *flooded) start(namespace, name string) time.Duration {
	f.t.Helper()
	pod := newPod(namespace, name, "", "")
	pod.Labels, pod.Spec.NodeName = map[string]string{"app": name}, "node-1"
	began := time.Now()
	f.create(pod)
	f.await("pod "+name+" has no address", func(ctx context.Context) (bool, error) {
		err := f.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == v1alpha1.NetworkReadyCondition && c.Status == corev1.ConditionTrue
		}), err
	})
	return time.Since(began)
}

// expose makes a Service that selects a pod of the calm tenant, and returns how long it took
// until the operator had written its EndpointSlice.
func (f *flooded) expose(name string) time.Duration {
	f.t.Helper()
	service := selecting(f.calm, name, name)
	began := time.Now()
	f.create(service)
	f.await("Service "+name+" has no endpoint", func(context.Context) (bool, error) {
		return slices.ContainsFunc(f.managed(service), func(slice discoveryv1.EndpointSlice) bool { return len(slice.Endpoints) > 0 }), nil
	})
	return time.Since(began)
}

// await looks more often than eventually does.
func (f *flooded) await(lacking string, check func(context.Context) (bool, error)) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), waits.Limit(within))
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := check(ctx); err != nil {
			f.t.Fatal(err)
		} else if done {
			return
		}
		select {
		case <-ctx.Done():
			f.t.Fatal(lacking)
		case <-tick.C:
		}
	}
}

// figures are the measurements of a round.
type figures struct {
	pods, services []time.Duration
	cpu            float64
}

// measure starts pods and Services of the calm tenant in rounds, while the hostile one changes
// a Network.
func (f *flooded) measure(count int) {
	f.t.Helper()
	ctx, end := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.churn(ctx) }()
	var all []figures
	for range rounds(count) {
		all = append(all, f.round(min(count, 100)))
	}
	end()
	if err := <-ended; err != nil {
		f.t.Error(err)
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.t.Logf("%6d: pods p50 %s, p99 %s; Services p50 %s, p99 %s; CPU %.0f %% of a core; heap %d MiB", count,
		median(all, func(r figures) time.Duration { return at(r.pods, 50) }), median(all, func(r figures) time.Duration { return at(r.pods, 99) }),
		median(all, func(r figures) time.Duration { return at(r.services, 50) }), median(all, func(r figures) time.Duration { return at(r.services, 99) }),
		median(all, func(r figures) float64 { return r.cpu }), memory.HeapAlloc>>20)
}

// rounds is how often a flood is measured: once, unless the figures are of interest.
func rounds(count int) int {
	if count <= smallFlood {
		return 1
	}
	return 5
}

func (f *flooded) round(count int) (r figures) {
	f.t.Helper()
	before, began := cpu(f.t), time.Now()
	for range count {
		f.pods++
		name := fmt.Sprintf("web%d", f.pods)
		r.pods = append(r.pods, f.start(f.calm, name))
		if f.pods%4 == 0 {
			r.services = append(r.services, f.expose(name))
		}
	}
	r.cpu = 100 * (cpu(f.t) - before).Seconds() / time.Since(began).Seconds()
	slices.Sort(r.pods)
	slices.Sort(r.services)
	return r
}

// at returns a percentile of sorted times.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100].Round(time.Millisecond)
}

// median returns the median of a figure over the rounds.
func median[V cmp.Ordered](all []figures, of func(figures) V) V {
	var values []V
	for _, r := range all {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
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
		case <-tick.C:
		}
		switch {
		case ctx.Err() != nil:
			return nil // the last requests may have ended with the context
		case err != nil:
			return err
		}
	}
}

// cpu returns the processor time that this process has used. The operator runs in this process.
func cpu(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
