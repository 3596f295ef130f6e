// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// thief is a tenant of the default VPC who also has a VPC of his own.
type thief struct {
	e         *env
	namespace string
	// admin has the rights of the thief.
	admin *scene.Scene
	// own is the thief's pod in the default VPC, and asks from there.
	own *corev1.Pod
	// stolen is the address of the victim, which bait has in his own VPC.
	stolen netip.Addr
	victim *corev1.Pod
}

// plain makes a namespace without a tenant's label.
func (e *env) plain(t *testing.T, name string) string {
	t.Helper()
	namespace := scene.Namespace(stage.Unique(name), "")
	e.Make(t, namespace)
	if err := e.WaitForAccount(stage.Within(t, stage.Patience), namespace.Name); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// thief makes both tenants and their pods: victim and bait have one address, each in
// its VPC.
func (e *env) thief(t *testing.T) *thief {
	t.Helper()
	first, second := e.Nodes()
	victims := e.plain(t, "victim")
	s := &thief{e: e, namespace: e.plain(t, "thief"), victim: scene.Pod(victims, "victim", scene.OnNode(second))}
	s.own = scene.Pod(s.namespace, "own", scene.OnNode(first))
	e.Run(t, s.victim, s.own, scene.Pod(s.namespace, "server", scene.OnNode(second), scene.WithLabel("app", "own")))
	s.stolen = scene.IP(s.victim, false)
	e.makeVPCAround(t, s.namespace, s.stolen)
	bait := scene.Pod(
		s.namespace,
		"bait",
		scene.OnNode(second),
		scene.InNetwork("mine"),
		scene.WithLabel("app", "bait"),
		scene.WithNIC(`{"ip": "`+s.stolen.String()+`"}`),
	)
	e.Run(t, bait)
	e.RemoveAfter(t, bait) // before its Network, which would wait for it
	s.admin = e.adminOf(t, s.namespace)
	return s
}

// makeVPCAround makes a VPC of a namespace's own, with its Network mine, that has an
// address in its range.
func (e *env) makeVPCAround(t *testing.T, namespace string, ip netip.Addr) {
	t.Helper()
	around := netip.PrefixFrom(ip, 24).Masked().String()
	vpc := scene.VPC(namespace, []string{v1alpha1.NamespaceTenantPrefix + namespace}, around)
	subnet := scene.Subnet(namespace, "net1", around)
	gateway := ip.As4()
	gateway[3] = 253
	if ip == netip.AddrFrom4(gateway) {
		gateway[3]--
	}
	subnet.Spec.Gateway = []string{netip.AddrFrom4(gateway).String()}
	network := scene.Network(namespace, "mine", namespace)
	e.Make(t, vpc, subnet, network)
	if err := e.WaitNetworkReady(stage.Within(t, stage.Patience), network); err != nil {
		t.Fatal(err)
	}
}

// service makes a Service of the default VPC with node ports; app is its selector, "" for none.
func (s *thief) service(t *testing.T, name, app string) *corev1.Service {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{
			{Name: "tcp", Port: report.PortEcho, TargetPort: intstr.FromInt32(report.PortEcho)},
			{Name: "udp", Protocol: corev1.ProtocolUDP, Port: report.PortEcho, TargetPort: intstr.FromInt32(report.PortEcho)},
		}},
	}
	if app != "" {
		service.Spec.Selector = map[string]string{"app": app}
	}
	if err := s.admin.Create(stage.Within(t, stage.Patience), service); err != nil {
		t.Fatal(err)
	}
	return service
}

// slice names the victim's address, and its pod as well.
func (s *thief) slice(service string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: service + "-forged", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{s.stolen.String()}, NodeName: &s.victim.Spec.NodeName, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: "bait", UID: s.victim.UID},
		}},
		Ports: []discoveryv1.EndpointPort{
			{
				Name: ptr.To("tcp"),
				Port: ptr.To[int32](report.PortEcho),
			}, {Name: ptr.To("udp"), Protocol: ptr.To(corev1.ProtocolUDP), Port: ptr.To[int32](report.PortEcho)},
		},
	}
}

// ask asks for a Service in every way there is: by its address from a pod of the default
// VPC and from a node, and by its node port at every node.
func (s *thief) ask(t *testing.T, service *corev1.Service, timeout string) []report.Probe {
	t.Helper()
	both := []string{"tcp", "udp"}
	byVIP := scene.Targets(both, netip.MustParseAddr(service.Spec.ClusterIP))
	var byPort []string
	for _, node := range s.e.Lab.Nodes() {
		for i, protocol := range both {
			byPort = append(byPort, scene.TargetPort(protocol, node.IPv4, uint16(service.Spec.Ports[i].NodePort)))
		}
	}
	command := slices.Concat([]string{scene.Tool, "probe", "--timeout", timeout, "--text", s.namespace}, byVIP, byPort)
	outs := []string{s.e.InPod(t, s.own, command...)}
	command[0] = s.e.Tool
	for _, node := range s.e.Lab.Nodes() {
		outs = append(outs, s.e.OnNode(t, node.Name, command...))
	}
	var results []report.Probe
	for _, out := range outs {
		some, err := scene.ParseLines[report.Probe](out)
		if err != nil || len(some) != len(byVIP)+len(byPort) {
			t.Fatalf("%d results, %v: %s", len(some), err, out)
		}
		results = append(results, some...)
	}
	return results
}

// wantNothing requires that a Service has an event about the endpoint that is left out,
// and that no answer comes from it.
func (s *thief) wantNothing(t *testing.T, service *corev1.Service) {
	t.Helper()
	s.e.awaitEvent(t, service, v1alpha1.EndpointsLeftOutReason, s.stolen.String())
	for _, r := range s.ask(t, service, silenceTime.String()) {
		if r.OK {
			t.Errorf("%s leads to %s: %+v", service.Name, r.Name, r)
		}
	}
}

// TestService_EndpointOfOtherTenant_LeadsNowhere has a tenant make Services of the default VPC
// whose endpoints have the address that another tenant's pod has there.
func TestService_EndpointOfOtherTenant_LeadsNowhere(t *testing.T) {
	t.Parallel()
	e := start(t)
	s := e.thief(t)
	t.Run("its own pod answers", func(t *testing.T) {
		own := s.service(t, "own", "own")
		err := scene.Until(stage.Within(t, stage.Patience), "an answer in every way", func(context.Context) (bool, string, error) {
			results := s.ask(t, own, silenceTime.String())
			silent := slices.DeleteFunc(results, func(r report.Probe) bool { return r.OK })
			return len(silent) == 0, fmt.Sprintf("%+v", silent), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("by a pod in another VPC", func(t *testing.T) { s.wantNothing(t, s.service(t, "bait", "bait")) })
	t.Run("by a slice", func(t *testing.T) {
		ctx := stage.Within(t, stage.Patience)
		if err := s.admin.Client.Create(ctx, s.slice("refused")); !apierrors.IsForbidden(err) {
			t.Fatalf("role admin may write slices: %v", err)
		}
		s.maySlice(t)
		for name, app := range map[string]string{"forged": "nobody", "by-hand": ""} {
			service := s.service(t, name, app)
			if err := s.admin.Client.Create(ctx, s.slice(name)); err != nil {
				t.Fatal(err)
			}
			s.wantNothing(t, service)
		}
	})
	seen, err := e.Seen(stage.Within(t, stage.Patience), s.victim)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range seen {
		if strings.Contains(message.Text, s.namespace) {
			t.Errorf("the victim got %+v", message)
		}
	}
}

// maySlice gives the tenant rights on slices, as some clusters do.
func (s *thief) maySlice(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "slices"}
	role := &rbacv1.Role{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: []string{"*"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "admin-of-" + s.namespace}},
	}
	if err := s.e.Create(stage.Within(t, stage.Patience), role, binding); err != nil { // they go with their namespace
		t.Fatal(err)
	}
	err := scene.Until(stage.Within(t, stage.Patience), "rights on slices", func(ctx context.Context) (bool, string, error) {
		err := s.admin.Client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: "none"}, &discoveryv1.EndpointSlice{})
		return apierrors.IsNotFound(err), fmt.Sprint(err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
