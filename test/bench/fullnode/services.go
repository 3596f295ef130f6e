// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package fullnode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/nodes"
	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	fewServices, manyServices = 5, 5000
	// serviceBackends is how many backends a Service has, but for the one measured.
	serviceBackends = 4
	// serviceAddresses is how many addresses of the VPC the backends are of.
	serviceAddresses = 200
	// serviceChanges is how many slices are changed one by one in a round.
	serviceChanges = 200
	// serviceTurns is the number of turns of a round. The turns measure the paths to a Service,
	// which differ by a few per cent.
	serviceTurns = 10
	// packetPorts is the number of source ports that a client uses in turn if its packets
	// are translated.
	packetPorts = 1000
	// lookEvery is the precision of the time when a change is in the maps. To look all the time
	// would take a processor from the daemon.
	lookEvery = 100 * time.Microsecond
	// web is the Service that is measured, and the name of its port.
	web = "web"
)

// Paths of the tables.
const (
	ownAddress  = "pod's address"
	fewPath     = "5 Services"
	manyPath    = "5,000 Services"
	proxiedPath = "kube-proxy"
	bridgedPod  = "bridge, pod's address"
)

// Services measures Services on nodes of their own.
func (b *Bench) Services(ctx context.Context) (err error) {
	program, err := b.buildKubeProxy(ctx)
	if err != nil {
		return err
	}
	rig, err := b.newScaleRig(ctx)
	s := &servicesRig{scaleRig: rig}
	defer func() { err = errors.Join(err, s.remove(ctx)) }()
	if err != nil {
		return err
	}
	if s.proxy, err = nodes.NewProxy(ctx, "alioth-bench-proxy", "192.0.2.3", program, rig.server); err != nil {
		return err
	}
	if err := s.setUp(ctx); err != nil {
		return err
	}
	measures := []func(context.Context) error{
		s.atSockets, s.inPackets, s.daemonCosts, s.mapCosts, s.nodePortCosts,
	}
	for _, measure := range measures {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// buildKubeProxy returns the file of the program.
func (b *Bench) buildKubeProxy(ctx context.Context) (string, error) {
	cache, err := build.DefaultCache()
	if err != nil {
		return "", err
	}
	builder := build.Builder{Root: b.root, Cache: cache, Progress: b.step}
	dir, err := builder.Ensure(ctx, build.KubeProxy())
	return filepath.Join(dir, "kube-proxy"), err
}

// servicesRig is an API server and three nodes: one whose VPC has few Services, one
// whose VPC has many, and one with kube-proxy.
type servicesRig struct {
	*scaleRig
	proxy *nodes.Proxy
	// vips are the addresses of the Services that are measured, by namespace.
	vips map[string]netip.Addr
	// machine is the namespace of a pod without socket hooks.
	machine string
	turn    int
}

func (s *servicesRig) remove(ctx context.Context) error {
	var err error
	if s.proxy != nil {
		err = s.proxy.Remove(ctx)
	}
	return errors.Join(s.scaleRig.remove(ctx), err)
}

// VPCs of the nodes, and namespaces of their Services, which have a Network each.
const (
	manyVPC, fewVPC                          = 0, 1
	manyNamespace, fewNamespace, proxiedName = "many", "few", "proxied"
)

func (s *servicesRig) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scaleSetUp)
	defer cancel()
	own := map[string]string{
		s.full.Name:  s.full.Address,
		s.empty.Name: s.empty.Address,
		s.proxy.Name: s.proxy.Address,
	}
	for name, address := range own {
		if err := s.create(ctx, scaleNode(name, address)); err != nil {
			return err
		}
	}
	for i := range scaleFar {
		if err := s.create(ctx, scaleNode(farNode(i), fmt.Sprintf("192.0.2.%d", 100+i))); err != nil {
			return err
		}
	}
	for _, node := range []*nodes.Node{s.empty, s.full} {
		if _, err := node.Start(ctx); err != nil {
			return err
		}
	}
	if err := s.proxy.Start(ctx); err != nil {
		return err
	}
	if err := s.api.Update(ctx, tenantNamespace(metav1.NamespaceDefault)); err != nil {
		return fmt.Errorf("make the pods' namespace the tenant's: %w", err)
	}
	s.step(fmt.Sprintf("creating %d Services of %d backends", manyServices, serviceBackends))
	err := errors.Join(
		s.vpc(ctx, manyVPC, serviceAddresses, s.full, "first", "second", "third"),
		s.vpc(ctx, fewVPC, serviceAddresses, s.empty, "first", "second"),
	)
	if err != nil {
		return err
	}
	s.vips = map[string]netip.Addr{}
	for _, of := range []struct {
		namespace string
		vpc       int
		count     int
		backend   netip.Addr
	}{
		{fewNamespace, fewVPC, fewServices, scaleIP(1)},
		{manyNamespace, manyVPC, manyServices, scaleIP(1)},
		{proxiedName, -1, 1, nodes.ProxyPods()["second"]},
	} {
		if err := s.fill(ctx, of.namespace, of.vpc, of.count, of.backend); err != nil {
			return err
		}
	}
	if s.machine, err = s.full.Unhook(ctx, fmt.Sprintf("third-%d", manyVPC)); err != nil {
		return err
	}
	return errors.Join(
		s.tool.Serve(s.podOf(s.full, "second", manyVPC)),
		s.tool.Serve(s.podOf(s.empty, "second", fewVPC)),
		s.tool.Serve(s.proxy.Pod("second")),
	)
}

func (s *servicesRig) podOf(node *nodes.Node, role string, vpc int) string {
	return underlay.NetNSPath(node.PodNetNS(fmt.Sprintf("%s-%d", role, vpc)))
}

// fill makes a namespace with a Network, which names a VPC unless that is negative,
// and Services: the first leads to one backend, the others to some of the VPC.
func (s *servicesRig) fill(ctx context.Context, namespace string, vpc, count int, backend netip.Addr) error {
	if err := s.api.Create(ctx, tenantNamespace(namespace)); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	if vpc >= 0 {
		err := s.api.Create(ctx, &arktosv1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: arktosv1.DefaultNetwork},
			Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: scaleVPC(vpc)},
		})
		if err != nil {
			return fmt.Errorf("create the Network of %s: %w", namespace, err)
		}
	}
	vip, err := s.service(ctx, namespace, web, []netip.Addr{backend})
	if err != nil {
		return err
	}
	s.vips[namespace] = vip
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := 1; i < count; i++ {
		group.Go(func() error {
			_, err := s.service(groupCtx, namespace, serviceName(i), backendsAt(i))
			return err
		})
	}
	return group.Wait()
}

// tenantNamespace returns a namespace of the one tenant that has all pods and Services
// here: a Service without a selector leads to pods of its own tenant alone.
func tenantNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: "bench"}},
	}
}

func serviceName(i int) string { return fmt.Sprintf("service-%d", i) }

// backendsAt returns some addresses of a VPC that pods elsewhere have, ascending.
func backendsAt(i int) []netip.Addr {
	const first = 10 // those before belong to pods here
	var list []netip.Addr
	for n := range serviceBackends {
		list = append(list, scaleIP(first+(i+n)%(serviceAddresses-first)))
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// service makes a Service with one port and its slice, and returns its address.
func (s *servicesRig) service(ctx context.Context, namespace, name string, backends []netip.Addr) (netip.Addr, error) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: web, Port: int32(report.PortRoundTrip), TargetPort: intstr.FromInt32(int32(report.PortRoundTrip))},
	}}}
	if namespace != manyNamespace || name == web {
		service.Spec.Ports = append(
			service.Spec.Ports,
			corev1.ServicePort{Name: "http", Port: int32(report.PortHTTP), TargetPort: intstr.FromInt32(int32(report.PortHTTP))},
		)
	}
	if err := s.api.Create(ctx, service); err != nil {
		return netip.Addr{}, fmt.Errorf("create Service %s/%s: %w", namespace, name, err)
	}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta,
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   endpointsAt(backends),
	}
	for _, port := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Port})
	}
	if err := s.api.Create(ctx, slice); err != nil {
		return netip.Addr{}, fmt.Errorf("create EndpointSlice %s/%s: %w", namespace, name, err)
	}
	return netip.ParseAddr(service.Spec.ClusterIP)
}

func endpointsAt(backends []netip.Addr) []discoveryv1.Endpoint {
	ready := true
	var list []discoveryv1.Endpoint
	for _, ip := range backends {
		list = append(
			list,
			discoveryv1.Endpoint{Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		)
	}
	return list
}

// connects measures the rate of connections with a request each; ports means the same as for
// load.Connect. A pod can't ask the backend itself from a port that has just asked a Service.
func connects(ports int) packets.Measure {
	return func(ctx context.Context, p packets.Path, span time.Duration) (float64, error) {
		first := 20000
		if p.Name == ownAddress {
			first -= packetPorts
		}
		var result report.Latency
		err := p.Ask(ctx, &result, "connect-latency", p.To(report.PortRoundTrip),
			"--duration", span.String(), "--ports", fmt.Sprint(ports), "--first-port", fmt.Sprint(first))
		return result.PerSecond / 1e3, err
	}
}

// atSockets measures sockets of pods.
func (s *servicesRig) atSockets(ctx context.Context) error {
	many, few, bridged := s.tool.In(
		s.podOf(s.full, "first", manyVPC),
	), s.tool.In(
		s.podOf(s.empty, "first", fewVPC),
	), s.tool.In(
		s.proxy.Pod("first"),
	)
	return s.paths(ctx, "Translated at the socket", 0, 0.97, []packets.Path{
		{Name: ownAddress, Run: many, Address: scaleIP(1)},
		{Name: manyPath, Run: many, Address: s.vips[manyNamespace]},
		{Name: fewPath, Run: few, Address: s.vips[fewNamespace]},
		{Name: bridgedPod, Run: bridged, Address: nodes.ProxyPods()["second"]},
		{Name: proxiedPath, Run: bridged, Address: s.vips[proxiedName]},
	}, figures.Bar{Reference: fewPath, AtLeast: 0.95})
}

// inPackets measures sockets in a namespace without hooks.
func (s *servicesRig) inPackets(ctx context.Context) error {
	machine, bridged := s.tool.In(underlay.NetNSPath(s.machine)), s.tool.In(s.proxy.Pod("first"))
	return s.paths(ctx, "Translated in packets", packetPorts, 0.90, []packets.Path{
		{Name: ownAddress, Run: machine, Address: scaleIP(1)},
		{Name: manyPath, Run: machine, Address: s.vips[manyNamespace]},
		{Name: proxiedPath, Run: bridged, Address: s.vips[proxiedName]},
	})
}

// paths measures the path to a Service, and compares it with kube-proxy's path and with the path to
// the backend's address. The first has to reach a share of the last.
func (s *servicesRig) paths(
	ctx context.Context,
	title string,
	ports int,
	share float64,
	paths []packets.Path,
	more ...figures.Bar,
) error {
	if err := packets.WarmUp(ctx, paths); err != nil {
		return err
	}
	rate := append([]figures.Bar{{Reference: ownAddress, AtLeast: share}, {Reference: proxiedPath, AtLeast: 1.1}}, more...)
	var times []figures.Bar
	for _, bar := range rate {
		times = append(times, figures.Bar{Reference: bar.Reference, AtMost: 1 / bar.AtLeast})
	}
	jobs := []packets.Job{
		packets.NewJob("connections with a request", "1000/s", "%.1f", connects(ports), paths, rate...),
		packets.RoundTrip(paths, times...),
	}
	var names []string
	for _, p := range paths {
		names = append(names, p.Name)
	}
	rows, err := s.meter.MeasureInTurns(ctx, title, jobs, serviceTurns)
	if err != nil {
		return err
	}
	for _, row := range rows {
		row.Subject = manyPath
	}
	return figures.Print(s.out, title+", between two pods of a node", names, rows)
}
