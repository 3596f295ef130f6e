// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	// manyServices is how many there are in `make soak`, and in `make test`.
	manyServices, fewerServices = 5000, 250
	// manyWriters ask the API server at the same time.
	manyWriters = 32
	// samples is the number of Services that are asked.
	samples = 20
)

// crowd is a tenant with very many Services of four pods, two on each node, and a client
// on each.
type crowd struct {
	*scene.Tenant
	env       *env
	api       kubernetes.Interface
	backends  []*corev1.Pod
	near, far *corev1.Pod
	// vips are the addresses of the Services, by number.
	vips []netip.Addr
}

func (e *env) crowd(t *testing.T) *crowd {
	t.Helper()
	first, second := e.Nodes()
	config := rest.CopyConfig(e.Lab.Config())
	config.QPS = -1 // as fast as the API server answers, which is faster to
	config.ContentType = runtime.ContentTypeProtobuf
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{Tenant: e.Tenant(t, stage.Overlapping("crowd")), env: e, api: api, vips: make([]netip.Addr, soak.Or(t, manyServices, fewerServices))}
	for i := range 4 {
		c.backends = append(c.backends, c.Pod(fmt.Sprintf("server-%d", i), scene.OnNode([]string{first, second}[i%2])))
	}
	c.near, c.far = c.Pod("near", scene.OnNode(first)), c.Pod("far", scene.OnNode(second))
	e.Run(t, append([]*corev1.Pod{c.near, c.far}, c.backends...)...)
	return c
}

func manyName(i int) string { return fmt.Sprintf("service-%d", i) }

// each does something for every Service, many at a time, and logs how long it took.
func (c *crowd) each(t *testing.T, what string, do func(ctx context.Context, i int) error) {
	t.Helper()
	began := time.Now()
	group, ctx := errgroup.WithContext(within(t, 3*patience))
	group.SetLimit(manyWriters)
	for i := range c.vips {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %d Services took %s", what, len(c.vips), time.Since(began).Round(100*time.Millisecond))
}

// create makes a Service and the slice with its backends.
func (c *crowd) create(ctx context.Context, i int) error {
	meta := metav1.ObjectMeta{Namespace: c.Namespace.Name, Name: manyName(i)}
	service, err := c.api.CoreV1().Services(meta.Namespace).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "echo", Port: report.PortEcho, TargetPort: intstr.FromInt32(report.PortEcho)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if c.vips[i], err = netip.ParseAddr(service.Spec.ClusterIP); err != nil {
		return err
	}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
	_, err = c.api.DiscoveryV1().EndpointSlices(meta.Namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpointsOf(c.backends...),
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("echo"), Port: ptr.To[int32](report.PortEcho)}},
	}, metav1.CreateOptions{})
	return err
}

func endpointsOf(pods ...*corev1.Pod) []discoveryv1.Endpoint {
	var list []discoveryv1.Endpoint
	for _, pod := range pods {
		list = append(list, discoveryv1.Endpoint{
			Addresses: []string{scene.IP(pod, false).String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return list
}

// remove deletes a Service and its slice.
func (c *crowd) remove(ctx context.Context, i int) error {
	if err := c.api.CoreV1().Services(c.Namespace.Name).Delete(ctx, manyName(i), metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.api.DiscoveryV1().EndpointSlices(c.Namespace.Name).Delete(ctx, manyName(i), metav1.DeleteOptions{})
}

// awaitMaps waits until every node's maps hold want Services of the VPC, each with all backends but
// one, which has some of its own.
func (c *crowd) awaitMaps(t *testing.T, want int, special netip.Addr, backends int) {
	t.Helper()
	began := time.Now()
	for _, node := range c.env.Lab.Nodes() {
		err := scene.Until(within(t, patience), fmt.Sprintf("%d Services on %s", want, node.Name), func(ctx context.Context) (bool, string, error) {
			dump, err := c.env.Dump(ctx, node.Name)
			found, wrong := 0, 0
			for key, content := range dump.Rows {
				var vip string
				if rest, ok := strings.CutSuffix(key, fmt.Sprintf(" in VNI %d", c.VPC.Status.VNI)); !ok || !isService(rest, &vip) {
					continue
				}
				found++
				expected := len(c.backends)
				if vip == special.String() {
					expected = backends
				}
				if strings.Count(content, "{IP:") != expected || !slices.ContainsFunc(c.vips, func(ip netip.Addr) bool { return ip.String() == vip }) {
					wrong++
				}
			}
			return err == nil && len(dump.Unreadable) == 0 && found == want && wrong == 0,
				fmt.Sprintf("%d Services, %d of them with other backends; %v", found, wrong, dump.Unreadable), err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("after a further %s the maps of every node hold %d Services", time.Since(began).Round(100*time.Millisecond), want)
}

// isService reports whether the key of a row names a Service, and sets vip to the Service's
// address.
func isService(key string, vip *string) bool {
	n, _ := fmt.Sscanf(key, "service %s", vip)
	return n == 1
}

// expectSample asks the first, the last and some others from either node, by sockets
// and, which a ping is for, by packets.
func (c *crowd) expectSample(t *testing.T) {
	t.Helper()
	want := map[string]string{}
	for i := 0; i < len(c.vips); i += len(c.vips) / samples {
		want[scene.Target("tcp", c.vips[i])], want[scene.Target("icmp", c.vips[i])] = "", ""
	}
	want[scene.Target("tcp", c.vips[len(c.vips)-1])] = ""
	for _, from := range []*corev1.Pod{c.near, c.far} {
		c.env.expectAnswers(t, from, want)
	}
}

// narrow leaves one backend to a Service.
func (c *crowd) narrow(t *testing.T, i int, to *corev1.Pod) {
	t.Helper()
	slices := c.api.DiscoveryV1().EndpointSlices(c.Namespace.Name)
	slice, err := slices.Get(within(t, patience), manyName(i), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice.Endpoints = endpointsOf(to)
	if _, err := slices.Update(within(t, patience), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitMaps(t, len(c.vips), c.vips[i], 1)
	for _, from := range []*corev1.Pod{c.near, c.far} {
		results, err := c.env.askBySockets(within(t, patience), from, askedAgain, "tcp://"+netip.AddrPortFrom(c.vips[i], report.PortEcho).String())
		if err != nil || len(results) != askedAgain {
			t.Fatalf("%d answers, %v", len(results), err)
		}
		for _, result := range results {
			if result.Name != scene.ServerName(to.Namespace, to.Name) {
				t.Errorf("the Service with one backend: %+v", result)
			}
		}
	}
}

func TestServices_ManyOnNode_ServedAndRemoved(t *testing.T) {
	e := start(t)
	first, _ := e.Nodes()
	c := e.crowd(t)
	if err := e.Client.Get(within(t, patience), client.ObjectKeyFromObject(c.VPC), c.VPC); err != nil {
		t.Fatal(err)
	}
	nobody := netip.Addr{}
	c.each(t, "creating", c.create)
	c.awaitMaps(t, len(c.vips), nobody, 0)
	c.expectSample(t)

	changed, loaded := 42, len(c.vips)-42
	c.narrow(t, changed, c.backends[3])
	target := netip.AddrPortFrom(c.vips[loaded], report.PortEcho).String()
	load := e.startConnecting(t, target, c.near, c.far)
	e.killDaemon(t, first)
	if served := e.expectNoLoss(t, load); len(served) != len(c.backends) {
		t.Errorf("answered by %v, want each of %d", served, len(c.backends))
	}
	c.awaitMaps(t, len(c.vips), c.vips[changed], 1)
	c.expectSample(t)

	c.each(t, "deleting", c.remove)
	c.awaitMaps(t, 0, nobody, 0)
}
