// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// balanced is a tenant's network with a subnet for load balancers.
func (r *rig) balanced(name string) {
	r.t.Helper()
	r.network(name)
	r.create(balancers(name))
}

func balancers(vpc string) *v1alpha1.Subnet {
	subnet := newSubnet(vpc+"-lb", vpc, "lb", "10.10.7.0/24", "fd10:10:0:7::/64")
	subnet.Spec.Use = v1alpha1.SubnetForServices
	return subnet
}

// newBalancer returns a Service of Alioth's class in the Network "n" of its namespace.
func newBalancer(namespace, name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{arktosv1.NetworkLabel: "n"}, Annotations: annotations,
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To(v1alpha1.LoadBalancerClass),
			AllocateLoadBalancerNodePorts: ptr.To(false), Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
}

func asking(ips string) map[string]string {
	return map[string]string{v1alpha1.LoadBalancerIPsAnnotation: ips}
}

// shows makes a check of the addresses in a Service's status.
func shows(ips ...string) func(*corev1.Service) error {
	return func(service *corev1.Service) error {
		var got []string
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ptr.Deref(ingress.IPMode, "") != corev1.LoadBalancerIPModeVIP {
				return fmt.Errorf("%s has the mode %v", ingress.IP, ingress.IPMode)
			}
			got = append(got, ingress.IP)
		}
		if !slices.Equal(got, ips) {
			return fmt.Errorf("Service %s shows %v, want %v", service.Name, got, ips)
		}
		return nil
	}
}

// has checks that a Service holds exactly these addresses.
func (r *rig) has(service *corev1.Service, ips ...string) {
	r.t.Helper()
	r.eventually(func() error {
		var got []string
		for _, address := range r.held(string(service.UID)) {
			if address.Spec.Holder.Kind != v1alpha1.HolderService || address.Spec.Holder.Name != service.Name {
				return fmt.Errorf("%s is held by %v", address.Name, address.Spec.Holder)
			}
			got = append(got, address.Spec.IP)
		}
		if !slices.Equal(got, ips) {
			return fmt.Errorf("Service %s holds %v, want %v", service.Name, got, ips)
		}
		return nil
	})
}

// change patches an object.
func change[O client.Object](r *rig, object O, how func(O)) {
	r.t.Helper()
	before := object.DeepCopyObject().(client.Object)
	how(object)
	if err := r.Patch(r.t.Context(), object, client.MergeFrom(before)); err != nil {
		r.t.Fatal(err)
	}
}

func TestLoadBalancers_TwoVPCs_SameAddressUntilDeleted(t *testing.T) {
	r := start(t)
	r.balanced("lb-one")
	r.balanced("lb-two")
	one, two := newBalancer("lb-one", "web", nil), newBalancer("lb-two", "web", asking("10.10.7.2"))
	r.create(one, two)
	for _, service := range []*corev1.Service{one, two} {
		sees(r, service, shows("10.10.7.2"))
		r.has(service, "10.10.7.2")
	}
	r.delete(one)
	r.has(one)
	r.has(two, "10.10.7.2")

	both := newBalancer("lb-two", "both", asking("fd10:10:0:7::9"))
	both.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	r.create(both)
	sees(r, both, shows("10.10.7.3", "fd10:10:0:7::9"))
	r.has(both, "10.10.7.3", "fd10:10:0:7::9")

	sees(r, usageOf(v1alpha1.UsageOfSubnet, "lb-two-lb"), func(usage *v1alpha1.Usage) error {
		if usage.Status.Used != 3 {
			return fmt.Errorf("%d addresses of the subnet are used, want 3", usage.Status.Used)
		}
		return nil
	})
	change(r, both, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil, nil
	})
	r.has(both)
	sees(r, both, shows())
}

func TestLoadBalancer_NoAddress_ReasonThenHealed(t *testing.T) {
	r := start(t)
	r.network("lb-none")
	service := newBalancer("lb-none", "web", nil)
	r.create(service)
	r.announced(service, v1alpha1.SubnetNotFoundReason)
	r.create(balancers("lb-none"))
	sees(r, service, shows("10.10.7.2"))

	rival := newBalancer("lb-none", "rival", asking("10.10.7.2"))
	r.create(rival)
	r.announced(rival, v1alpha1.IPInUseReason)
	for annotation, reason := range map[string]string{
		"10.10.1.20":           v1alpha1.SubnetUseReason,
		"10.10.7.1":            v1alpha1.IPReservedReason,
		"10.99.0.1":            v1alpha1.IPOutsideVPCReason,
		"10.10.7.8, 10.10.7.9": v1alpha1.LoadBalancerInvalidReason,
	} {
		wrong := newBalancer("lb-none", "wrong-"+strings.ToLower(reason), asking(annotation))
		r.create(wrong)
		r.announced(wrong, reason)
		r.has(wrong)
	}
	change(r, service, func(s *corev1.Service) { s.Annotations = map[string]string{v1alpha1.LoadBalancerAnnotation: "Moon"} })
	r.announced(service, v1alpha1.LoadBalancerInvalidReason)
	sees(r, service, shows())
	sees(r, rival, shows("10.10.7.2"))
}

func TestLoadBalancer_StateLost_AddressKept(t *testing.T) {
	r := newRig(t)
	stop := r.operate(testConfig())
	r.balanced("lb-lost")
	service := newBalancer("lb-lost", "web", nil)
	leaving := newBalancer("lb-lost", "leaving", asking("10.10.7.40"))
	r.create(service, leaving)
	sees(r, service, shows("10.10.7.2"))
	sees(r, leaving, shows("10.10.7.40"))

	for _, address := range r.held(string(service.UID)) {
		r.delete(&address)
	}
	r.has(service, "10.10.7.2") // though 10.10.7.3 is next
	forget := service.DeepCopy()
	forget.Status.LoadBalancer.Ingress = nil
	if err := r.Status().Patch(t.Context(), forget, client.MergeFrom(service)); err != nil {
		t.Fatal(err)
	}
	sees(r, service, shows("10.10.7.2"))

	// While no operator runs a Service goes, and of another one an operator died
	// behind the claim.
	stop()
	half := newBalancer("lb-lost", "half", nil)
	half.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	r.create(half)
	r.delete(leaving)
	r.create(&v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName("lb-lost", netip.MustParseAddr("10.10.7.77"))},
		Spec: v1alpha1.AddressSpec{
			VPC: "lb-lost", Subnet: "lb-lost-lb", IP: "10.10.7.77", Set: []string{"10.10.7.77", "fd10:10:0:7::77"},
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderService, Namespace: "lb-lost", Name: "half", UID: string(half.UID)},
		},
	})
	r.operate(testConfig())
	r.operate(testConfig()) // and an operator that does not know of it
	sees(r, half, shows("10.10.7.77", "fd10:10:0:7::77"))
	r.has(half, "10.10.7.77", "fd10:10:0:7::77")
	r.has(leaving)
	late := newBalancer("lb-lost", "late", nil)
	r.create(late)
	sees(r, late, func(s *corev1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("it shows %v", s.Status.LoadBalancer.Ingress)
		}
		return nil
	})
	r.has(late, late.Status.LoadBalancer.Ingress[0].IP)
}

// TestServiceStatus_Forged_NoAddressGiven: a tenant writes the status of its Service, with the
// address of another tenant's load balancer, and with a free address.
func TestServiceStatus_Forged_NoAddressGiven(t *testing.T) {
	r := newRig(t)
	r.operate(testConfig())
	r.balanced("lb-forged")
	victim, forger := newBalancer("lb-forged", "victim", nil), newBalancer("lb-forged", "forger", nil)
	r.create(victim)
	sees(r, victim, shows("10.10.7.2"))
	r.create(forger)
	sees(r, forger, shows("10.10.7.3"))
	for _, ip := range []string{"10.10.7.2", "10.10.7.99"} {
		forged := forger.DeepCopy()
		forged.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		if err := r.Status().Patch(t.Context(), forged, client.MergeFrom(forger)); err != nil {
			t.Fatal(err)
		}
		sees(r, forger, shows("10.10.7.3"))
	}
	r.has(forger, "10.10.7.3")
	r.has(victim, "10.10.7.2")
	sees(r, victim, shows("10.10.7.2"))
}

// inCommon returns a world where two tenants share a VPC and two external addresses.
func inCommon(t *testing.T) *world {
	w := calm(t)
	w.create(newNamespace("bank", "bank"), newVPC("both", []string{"shop", "bank"}, "10.0.0.0/16"), ranges("both.net1", "10.0.1.0/28"), virtual("both"),
		newNetwork("shop", "both", "both"), newNetwork("bank", "both", "both"), newPool("both", []string{"shop", "bank"}, "192.0.2.16-192.0.2.17"))
	w.settle()
	return w
}

// expose makes a load balancer in the common VPC, and returns it with the address that it gets.
func (w *world) expose(namespace, name, kind, asked string) (service *corev1.Service, ip string) {
	w.t.Helper()
	service = balancer(name, "both", map[string]string{})
	service.Namespace = namespace
	for key, value := range map[string]string{v1alpha1.LoadBalancerAnnotation: kind, v1alpha1.LoadBalancerIPsAnnotation: asked} {
		if value != "" {
			service.Annotations[key] = value
		}
	}
	w.create(service)
	w.settle()
	list := w.api.objects[keyOf(service)].(*corev1.Service).Status.LoadBalancer.Ingress
	if len(list) != 1 {
		w.fail("Service %s shows %v, want one address", name, list)
	}
	return service, list[0].IP
}

// holdings lists the addresses that a Service holds.
func (w *world) holdings(service *corev1.Service) (names []string) {
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		if address.Spec.Holder.UID == string(service.UID) {
			names = append(names, address.Name)
		}
	}
	for _, address := range sorted[*v1alpha1.ExternalAddress](w.api) {
		if address.Spec.Service.UID == string(service.UID) {
			names = append(names, address.Name)
		}
	}
	return names
}

// TestService_MovesToOtherProxy_TakesNoAddress: a tenant leaves its load balancer to another
// proxy, and writes the addresses into its status and annotation. It takes the load balancer back
// when another tenant has these addresses.
func TestService_MovesToOtherProxy_TakesNoAddress(t *testing.T) {
	const leaves = "service.kubernetes.io/service-proxy-name"
	for where, kind := range map[string]string{"in a VPC": "", "outside": v1alpha1.LoadBalancerExternal} {
		t.Run(where, func(t *testing.T) {
			w := inCommon(t)
			first, one := w.expose("bank", "first", kind, "")
			thief, other := w.expose("shop", "thief", kind, "")
			edit(w, thief, func(s *corev1.Service) { s.Labels[leaves] = "another" })
			w.settle()
			second, _ := w.expose("bank", "second", kind, other)
			for _, back := range []bool{false, true} {
				for _, ip := range []string{one, other} {
					edit(w, thief, func(s *corev1.Service) {
						s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
						metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.LoadBalancerIPsAnnotation, ip)
						if back {
							delete(s.Labels, leaves)
						}
					})
					w.settle()
					if held := w.holdings(thief); len(held) > 0 {
						t.Errorf("back %v: the thief holds %v", back, held)
					}
					for victim, ip := range map[*corev1.Service]string{first: one, second: other} {
						if err := shows(ip)(w.api.objects[keyOf(victim)].(*corev1.Service)); err != nil {
							t.Errorf("back %v: %v", back, err)
						}
					}
				}
			}
			w.checkAtRest()
		})
	}
}

func newPool(name string, tenants []string, cidrs ...string) *v1alpha1.ExternalPool {
	return &v1alpha1.ExternalPool{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ExternalPoolSpec{CIDRs: cidrs, AllowedTenants: tenants},
	}
}

func poolReady(reason string) func(*v1alpha1.ExternalPool) error {
	return func(p *v1alpha1.ExternalPool) error { return ready(p.Status.Conditions, reason) }
}

func externally(more ...string) map[string]string {
	annotations := map[string]string{v1alpha1.LoadBalancerAnnotation: v1alpha1.LoadBalancerExternal}
	for i := 0; i < len(more); i += 2 {
		annotations[more[i]] = more[i+1]
	}
	return annotations
}

// hasOutside checks that an external address is a Service's, and which node
// announces it.
func (r *rig) hasOutside(ip string, service *corev1.Service, node string) {
	r.t.Helper()
	sees(r, &v1alpha1.ExternalAddress{ObjectMeta: metav1.ObjectMeta{Name: ip}}, func(a *v1alpha1.ExternalAddress) error {
		if a.Spec.Service.UID != string(service.UID) || a.Status.Node != node {
			return fmt.Errorf("%s is of Service %v and at node %q, want %s and %q", ip, a.Spec.Service, a.Status.Node, service.Name, node)
		}
		return nil
	})
}

// setReady sets whether a node is Ready, and resets it at the end of the test.
func (r *rig) setReady(name string, status corev1.ConditionStatus) {
	r.t.Helper()
	ctx, node := context.WithoutCancel(r.t.Context()), newNode(name)
	if err := r.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		r.t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	if err := r.Status().Update(ctx, node); err != nil {
		r.t.Fatal(err)
	}
}

func TestLoadBalancer_Pools_OnlyAllowedTenantServed(t *testing.T) {
	r := newRig(t)
	stop := r.operate(testConfig())
	r.network("edge")
	r.setReady("node-1", corev1.ConditionTrue)
	t.Cleanup(func() { r.setReady("node-1", corev1.ConditionFalse) })
	service := newBalancer("edge", "web", externally())
	r.create(service)
	r.announced(service, v1alpha1.ExternalPoolNotFoundReason)
	pool := newPool("edge", []string{"edge"}, "192.0.2.16-192.0.2.17")
	r.create(pool)
	sees(r, pool, poolReady(v1alpha1.ReadyReason))
	sees(r, service, shows("192.0.2.16"))
	r.hasOutside("192.0.2.16", service, "node-1")

	for name, c := range map[string]struct {
		annotations map[string]string
		reason      string
	}{
		"rival":     {externally(v1alpha1.LoadBalancerIPsAnnotation, "192.0.2.16"), v1alpha1.IPInUseReason},
		"elsewhere": {externally(v1alpha1.LoadBalancerIPsAnnotation, "192.0.2.99"), v1alpha1.IPOutsidePoolReason},
		"lost":      {externally(v1alpha1.ExternalPoolAnnotation, "nowhere"), v1alpha1.ExternalPoolNotFoundReason},
	} {
		refused := newBalancer("edge", name, c.annotations)
		r.create(refused)
		r.announced(refused, c.reason)
		sees(r, refused, shows())
	}
	last := newBalancer("edge", "last", externally())
	r.create(last)
	sees(r, last, shows("192.0.2.17"))
	late := newBalancer("edge", "late", externally())
	r.create(late)
	r.announced(late, v1alpha1.ExternalPoolExhaustedReason)
	r.delete(last)
	sees(r, late, shows("192.0.2.17"))

	// A Service is deleted while no operator runs; for another, an operator died after the claim.
	stop()
	r.delete(late)
	half := newBalancer("edge", "half", externally())
	r.create(half)
	change(r, pool, func(p *v1alpha1.ExternalPool) { p.Spec.CIDRs = []string{"192.0.2.16-192.0.2.30"} })
	r.create(&v1alpha1.ExternalAddress{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.25"}, Spec: v1alpha1.ExternalAddressSpec{
		IP: "192.0.2.25", Pool: "edge", Service: v1alpha1.ServiceReference{Namespace: "edge", Name: "half", UID: string(half.UID)},
	}})
	r.operate(testConfig())
	r.operate(testConfig())
	sees(r, half, shows("192.0.2.25"))
	r.gone(&v1alpha1.ExternalAddress{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.17"}})

	// Addresses that the pool no longer has are deleted, and their ExternalAddress objects with
	// them.
	change(r, pool, func(p *v1alpha1.ExternalPool) { p.Spec.AllowedTenants = []string{"somebody"} })
	sees(r, half, shows())
	r.announced(half, v1alpha1.ExternalPoolNotFoundReason)
	r.gone(&v1alpha1.ExternalAddress{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.25"}})
	overlapping := newPool("edge-overlapping", []string{"edge"}, "192.0.2.30-192.0.2.40")
	r.create(overlapping)
	sees(r, overlapping, poolReady(v1alpha1.OverlapReason))
	sees(r, half, shows())
	r.delete(pool)
	sees(r, half, func(s *corev1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("it shows %v", s.Status.LoadBalancer.Ingress)
		}
		return nil
	})
	r.create(balancers("edge"))
	change(r, half, func(s *corev1.Service) { delete(s.Annotations, v1alpha1.LoadBalancerAnnotation) })
	r.has(half, "10.10.7.2")
	sees(r, half, shows("10.10.7.2"))
}

func TestExternalIPs_NotGranted_Event(t *testing.T) {
	r := newRig(t)
	r.operate(testConfig())
	r.network("external-ips")
	service := newBalancer("external-ips", "web", nil)
	service.Spec = corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"198.51.100.7"}}
	r.create(service)
	r.announced(service, v1alpha1.ExternalIPsNotGrantedReason)
	pool := newPool("external-ips", []string{"external-ips", "*"}, "198.51.100.7-198.51.100.10")
	pool.Spec.Use = v1alpha1.PoolForExternalIPs
	r.create(pool)
	grants := &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalIPGrants}}
	says := func(want ...v1alpha1.ExternalIPGrant) {
		t.Helper()
		sees(r, grants, func(g *v1alpha1.AdmissionGrants) error {
			if !equality.Semantic.DeepEqual(g.ExternalIPs, want) {
				return fmt.Errorf("admission is told %v, want %v", g.ExternalIPs, want)
			}
			return nil
		})
	}
	says(v1alpha1.ExternalIPGrant{
		Pool: "external-ips", Tenants: []string{"external-ips", "*"},
		CIDRs: []string{"198.51.100.7/32", "198.51.100.8/31", "198.51.100.10/32"},
	})
	r.delete(pool)
	says()
}
