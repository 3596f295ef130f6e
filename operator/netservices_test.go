// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// lan is a namespace with a DanmNet "lan" of both families. Each has a device of its own,
// so that the ranges of no two tests meet on a wire.
func (r *rig) lan(namespace string) {
	r.t.Helper()
	net := &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lan"},
		Spec: danmv1.NetworkSpec{NetworkType: "macvlan", NetworkID: "lan", Options: danmv1.NetworkOptions{
			HostDevice: "dev-" + namespace, CIDR: "192.168.0.0/24", Net6: "fd00:1::/64",
		}},
	}
	r.create(newNamespace(namespace, ""), net)
	sees(r, net, func(n *danmv1.DanmNet) error { return ready(n.Status.Conditions, v1alpha1.ReadyReason) })
}

// onLAN runs a pod with the label app=web in the DanmNet "lan", with this last number in
// its addresses. It listens at the port web.
func (r *rig) onLAN(namespace, name string, number int, port int32) *corev1.Pod {
	r.t.Helper()
	pod := newPod(namespace, name, "", "")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Hostname, pod.Spec.Subdomain = name, "web"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: port}}
	list, err := json.Marshal([]map[string]string{{"network": "lan", "ip": fmt.Sprintf("192.168.0.%d", number), "ip6": fmt.Sprintf("fd00:1::%d", number)}})
	if err != nil {
		r.t.Fatal(err)
	}
	pod.Annotations = map[string]string{annotations.InterfacesKey: string(list)}
	r.schedule(pod, "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	return pod
}

// becomes sets the kubelet's Ready condition of a pod.
func (r *rig) becomes(pod *corev1.Pod, status corev1.ConditionStatus) {
	r.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		r.get(pod)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status})
		return r.Status().Update(r.t.Context(), pod)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// overLAN returns a headless Service that selects app=web in the DanmNet "lan".
func overLAN(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "a"}, Annotations: map[string]string{
			"danm.k8s.io/selector": `{"app": "web"}`, "danm.k8s.io/network": "lan",
		}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Ports:     []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web")}},
		},
	}
}

// managed returns the slices that the operator has made of a Service.
func (r *rig) managed(service *corev1.Service) []discoveryv1.EndpointSlice {
	r.t.Helper()
	var list discoveryv1.EndpointSliceList
	err := r.List(r.t.Context(), &list, client.InNamespace(service.Namespace), client.MatchingLabels{
		discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: v1alpha1.EndpointsManager,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

// leadsTo waits until the slices of a Service have exactly these endpoints, as
// "address:port" with the states that do not hold behind them.
func (r *rig) leadsTo(service *corev1.Service, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	r.eventually(func() error {
		var got []string
		for _, slice := range r.managed(service) {
			for _, endpoint := range slice.Endpoints {
				got = append(got, describe(&slice, &endpoint))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("Service %s leads to %q, want %q", service.Name, got, want)
		}
		return nil
	})
}

func describe(slice *discoveryv1.EndpointSlice, endpoint *discoveryv1.Endpoint) string {
	var port int32
	for _, one := range slice.Ports {
		port = *one.Port
	}
	text := fmt.Sprintf("%s:%d", strings.Join(endpoint.Addresses, ","), port)
	if !*endpoint.Conditions.Ready {
		text += " unready"
	}
	if !*endpoint.Conditions.Serving {
		text += " unserving"
	}
	if *endpoint.Conditions.Terminating {
		text += " terminating"
	}
	return text
}

// listed waits until the Endpoints object of a Service has these addresses; nil for none.
func (r *rig) listed(service *corev1.Service, addresses, notReady []string) {
	r.t.Helper()
	object := &corev1.Endpoints{ //nolint:staticcheck // Endpoints are written for older programs
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name},
	}
	sees(r, object, func(o *corev1.Endpoints) error { //nolint:staticcheck // as above
		var are, areNot []string
		for _, subset := range o.Subsets {
			for _, address := range subset.Addresses {
				are = append(are, fmt.Sprintf("%s:%d", address.IP, subset.Ports[0].Port))
			}
			for _, address := range subset.NotReadyAddresses {
				areNot = append(areNot, fmt.Sprintf("%s:%d", address.IP, subset.Ports[0].Port))
			}
		}
		if !slices.Equal(are, addresses) || !slices.Equal(areNot, notReady) {
			return fmt.Errorf("Endpoints %s are %q and %q, want %q and %q", o.Name, are, areNot, addresses, notReady)
		}
		return nil
	})
	if object.Labels[discoveryv1.LabelSkipMirror] != "true" || object.Labels["team"] != "a" {
		r.t.Errorf("the labels of Endpoints are %v", object.Labels)
	}
}

// TestClusterIPOverNetwork_NoPods_HasSlice: by its domain nodes know where to refuse
// connections.
func TestClusterIPOverNetwork_NoPods_HasSlice(t *testing.T) {
	r := start(t)
	r.lan("no-pods")
	web := overLAN("no-pods", "web")
	web.Spec.ClusterIP = ""
	r.create(web)
	net := &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: "no-pods", Name: "lan"}}
	r.get(net)
	empty := func() error {
		list := r.managed(web)
		if len(list) != 1 || list[0].Labels[v1alpha1.DomainLabel] != string(net.UID)+".net" || len(list[0].Endpoints) > 0 {
			return fmt.Errorf("the slices are %+v, want one of the network without endpoints", list)
		}
		return nil
	}
	r.eventually(empty)
	one := r.onLAN("no-pods", "one", 11, 8080)
	r.becomes(one, corev1.ConditionTrue)
	r.leadsTo(web, "192.168.0.11:8080")
	r.delete(one)
	r.eventually(empty)
	change(r, web, func(s *corev1.Service) { s.Annotations = nil })
	r.eventually(func() error {
		if list := r.managed(web); len(list) > 0 {
			return fmt.Errorf("the slices are %+v, want none", list)
		}
		return nil
	})
}

func TestServiceOverNetwork_PodsChange_Follows(t *testing.T) {
	r := start(t)
	r.lan("over-lan")
	one, two := r.onLAN("over-lan", "one", 11, 8080), r.onLAN("over-lan", "two", 12, 9090)
	r.becomes(one, corev1.ConditionTrue)
	web := overLAN("over-lan", "web")
	r.create(web)
	r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080", "192.168.0.12:9090 unready unserving", "fd00:1::12:9090 unready unserving")
	r.listed(web, []string{"192.168.0.11:8080", "fd00:1::11:8080"}, []string{"192.168.0.12:9090", "fd00:1::12:9090"})
	net := &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: "over-lan", Name: "lan"}}
	r.get(net)
	for _, slice := range r.managed(web) {
		endpoint := slice.Endpoints[0]
		if slice.Labels[v1alpha1.DomainLabel] != string(net.UID)+".net" || slice.Labels["team"] != "a" || !metav1.IsControlledBy(&slice, web) {
			t.Errorf("slice %s: labels %v, owners %v", slice.Name, slice.Labels, slice.OwnerReferences)
		}
		if *endpoint.NodeName != "node-1" || *endpoint.Hostname != endpoint.TargetRef.Name || endpoint.TargetRef.UID == "" {
			t.Errorf("slice %s: endpoint %+v", slice.Name, endpoint)
		}
	}

	r.becomes(two, corev1.ConditionTrue)
	r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080", "192.168.0.12:9090", "fd00:1::12:9090")
	r.becomes(two, corev1.ConditionFalse)
	r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080", "192.168.0.12:9090 unready unserving", "fd00:1::12:9090 unready unserving")
	r.becomes(two, corev1.ConditionTrue)
	change(r, one, func(p *corev1.Pod) { p.Labels["app"] = "db" })
	r.leadsTo(web, "192.168.0.12:9090", "fd00:1::12:9090")
	r.listed(web, []string{"192.168.0.12:9090", "fd00:1::12:9090"}, nil)
	change(r, web, func(s *corev1.Service) { s.Annotations["danm.k8s.io/selector"] = `{"app": "db"}` })
	r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080")
	change(r, one, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	if err := r.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	r.leadsTo(web, "192.168.0.11:8080 unready terminating", "fd00:1::11:8080 unready terminating")
	change(r, web, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	r.leadsTo(web, "192.168.0.11:8080 terminating", "fd00:1::11:8080 terminating")
	r.get(one)
	change(r, one, func(p *corev1.Pod) { p.Finalizers = nil })
	r.delete(one)
	r.leadsTo(web)
}

func TestServiceOverNetwork_Damaged_RepairedUntilUnannotated(t *testing.T) {
	r := start(t)
	r.lan("repair-lan")
	r.becomes(r.onLAN("repair-lan", "one", 11, 8080), corev1.ConditionTrue)
	web := overLAN("repair-lan", "web")
	r.create(web)
	r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080")
	for _, slice := range r.managed(web) {
		if slice.AddressType == discoveryv1.AddressTypeIPv6 {
			r.delete(&slice)
		} else {
			change(r, &slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "192.168.0.99" })
		}
		r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080")
	}
	r.listed(web, []string{"192.168.0.11:8080", "fd00:1::11:8080"}, nil)
	theirs := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "repair-lan", Name: "by-hand", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.168.0.77"}}},
	}
	r.create(theirs)
	change(r, web, func(s *corev1.Service) { s.Annotations = nil })
	r.leadsTo(web)
	r.gone(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "repair-lan", Name: "web"}}) //nolint:staticcheck // Endpoints are written for older programs
	if r.get(theirs); theirs.Endpoints[0].Addresses[0] != "192.168.0.77" {
		t.Errorf("a slice by hand is %+v", theirs)
	}
}

// The annotations go while no operator runs.
func TestServiceOverNetwork_AnnotationGoesUnseen_ObjectsRemoved(t *testing.T) {
	r := newRig(t)
	stop := r.operate(testConfig())
	r.lan("former-lan")
	r.becomes(r.onLAN("former-lan", "one", 11, 8080), corev1.ConditionTrue)
	web, kept := overLAN("former-lan", "web"), overLAN("former-lan", "kept")
	r.create(web, kept)
	for _, service := range []*corev1.Service{web, kept} {
		r.leadsTo(service, "192.168.0.11:8080", "fd00:1::11:8080")
		r.listed(service, []string{"192.168.0.11:8080", "fd00:1::11:8080"}, nil)
	}
	stop()
	change(r, web, func(s *corev1.Service) { s.Annotations = nil })
	before := r.managed(kept)
	cfg := testConfig()
	cfg.ServiceEndpoints = false
	r.operate(cfg)
	r.leadsTo(web)
	for _, service := range []*corev1.Service{web, kept} {
		r.gone(&corev1.Endpoints{ //nolint:staticcheck // Endpoints are written for older programs
			ObjectMeta: metav1.ObjectMeta{Namespace: "former-lan", Name: service.Name},
		})
	}
	for i, slice := range r.managed(kept) {
		if slice.ResourceVersion != before[i].ResourceVersion {
			t.Errorf("slice %s was written again without a change", slice.Name)
		}
	}
}

func TestEndpoints_OtherProgram_LeftAlone(t *testing.T) {
	r := start(t)
	r.lan("foreign-lan")
	r.becomes(r.onLAN("foreign-lan", "one", 11, 8080), corev1.ConditionTrue)
	theirs := &corev1.Endpoints{ //nolint:staticcheck // Endpoints are written for older programs
		ObjectMeta: metav1.ObjectMeta{Namespace: "foreign-lan", Name: "web"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.168.0.77"}}}}, //nolint:staticcheck // as above
	}
	web := overLAN("foreign-lan", "web")
	r.create(theirs, web)
	r.leadsTo(web, "192.168.0.11:8080", "fd00:1::11:8080")
	r.announced(web, v1alpha1.EndpointsNotOwnedReason)
	if r.get(theirs); theirs.Subsets[0].Addresses[0].IP != "192.168.0.77" {
		t.Errorf("the Endpoints are %+v", theirs)
	}
}

// TestEndpoints_Forged_ServiceUnchanged: a tenant makes Endpoints that look like the operator's, for a
// Service to come, and changes the Endpoints of a Service that is served. Nodes read neither. The
// operator writes its own Endpoints of the Service, and deletes nothing else.
func TestEndpoints_Forged_ServiceUnchanged(t *testing.T) {
	r := start(t)
	r.lan("forged-lan")
	r.becomes(r.onLAN("forged-lan", "one", 11, 8080), corev1.ConditionTrue)
	early := overLAN("forged-lan", "early")
	forged := func(name, uid string) *corev1.Endpoints { //nolint:staticcheck // Endpoints are written for older programs
		return &corev1.Endpoints{ //nolint:staticcheck // as above
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "forged-lan", Name: name, Labels: map[string]string{v1alpha1.EndpointsManagerLabel: v1alpha1.EndpointsManager},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "early", UID: types.UID(uid), Controller: ptr.To(true)}},
			},
			Subsets: []corev1.EndpointSubset{ //nolint:staticcheck // as above
				{Addresses: []corev1.EndpointAddress{{IP: "192.168.0.66"}}, Ports: []corev1.EndpointPort{{Port: 66}}},
			},
		}
	}
	other := forged("other", "of-no-service")
	r.create(forged("early", "of-no-service"), other, early)
	r.leadsTo(early, "192.168.0.11:8080", "fd00:1::11:8080")
	r.announced(early, v1alpha1.EndpointsNotOwnedReason)
	for _, slice := range r.managed(early) {
		for _, endpoint := range slice.Endpoints {
			if slices.Contains(endpoint.Addresses, "192.168.0.66") {
				t.Errorf("slice %s has the forged endpoint", slice.Name)
			}
		}
	}
	if r.get(other); len(other.Subsets) != 1 || other.DeletionTimestamp != nil {
		t.Errorf("Endpoints of no Service became %+v", other)
	}
}

func TestServiceOverNetwork_CannotBeServed_ReasonGiven(t *testing.T) {
	r := start(t)
	r.lan("broken-lan")
	r.becomes(r.onLAN("broken-lan", "one", 11, 8080), corev1.ConditionTrue)
	fine, broken, selects := overLAN("broken-lan", "fine"), overLAN("broken-lan", "broken"), overLAN("broken-lan", "selects")
	broken.Annotations["danm.k8s.io/selector"] = "app=web"
	selects.Spec.Selector = map[string]string{"app": "web"}
	r.create(broken, selects, fine)
	r.leadsTo(fine, "192.168.0.11:8080", "fd00:1::11:8080")
	r.announced(broken, v1alpha1.EndpointsInvalidReason)
	r.announced(selects, v1alpha1.SelectorInSpecReason)
	r.leadsTo(broken)
	r.leadsTo(selects)
	change(r, broken, func(s *corev1.Service) { s.Annotations["danm.k8s.io/selector"] = `{"app": "web"}` })
	r.leadsTo(broken, "192.168.0.11:8080", "fd00:1::11:8080")
	change(r, fine, func(s *corev1.Service) { s.Annotations["danm.k8s.io/network"] = "other" })
	r.leadsTo(fine)
	r.announced(fine, v1alpha1.NetworkNotFoundReason)
}

// TestServicesOverNetworks_AboveTenantLimit_Wait runs against a real API server.
func TestServicesOverNetworks_AboveTenantLimit_Wait(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.TenantServices = 2
	r.operate(cfg)
	r.lan("crowd-svc")
	r.onLAN("crowd-svc", "web-0", 5, 8080)
	var services []*corev1.Service
	for i := range 3 {
		service := overLAN("crowd-svc", fmt.Sprintf("web-%d", i))
		r.create(service)
		services = append(services, service)
	}
	r.leadsTo(services[0], "192.168.0.5:8080 unready unserving", "fd00:1::5:8080 unready unserving")
	r.leadsTo(services[1], "192.168.0.5:8080 unready unserving", "fd00:1::5:8080 unready unserving")
	r.warned(services[2], v1alpha1.TenantLimitReason)
	if slices := r.managed(services[2]); len(slices) > 0 {
		t.Errorf("a Service above the limit has %d slices", len(slices))
	}
	r.delete(services[0])
	r.leadsTo(services[2], "192.168.0.5:8080 unready unserving", "fd00:1::5:8080 unready unserving")
}

func TestService_ServedNowhere_Event(t *testing.T) {
	r := start(t)
	r.network("unserved")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "unserved", Name: "web", Labels: map[string]string{arktosv1.NetworkLabel: "nowhere"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	r.create(service)
	r.announced(service, v1alpha1.NetworkNotFoundReason)
	r.create(newNetwork("unserved", "early", "unserved-nowhere"))
	before := service.DeepCopy()
	service.Labels[arktosv1.NetworkLabel] = "early"
	if err := r.Patch(t.Context(), service, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.announced(service, v1alpha1.NetworkNotReadyReason)
	r.create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "unserved", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
	})
	before = service.DeepCopy()
	service.Labels[arktosv1.NetworkLabel] = "n"
	if err := r.Patch(t.Context(), service, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.announced(service, v1alpha1.EndpointsLeftOutReason)
}

// TestServiceEvent_Annotation_SourceNamed: the program that wrote it, and the annotation as the user
// wrote it.
func TestServiceEvent_Annotation_SourceNamed(t *testing.T) {
	r := start(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "web", Annotations: map[string]string{"danm.io/clusterNetwork": "external"}},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	r.create(newNamespace("source", ""), service)
	r.eventually(func() error {
		var list corev1.EventList
		if err := r.List(t.Context(), &list, client.InNamespace("source")); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.InvolvedObject.UID != service.UID || event.Reason != v1alpha1.EndpointsInvalidReason {
				continue
			}
			if event.ReportingController != "alioth-operator" || event.ReportingInstance == "" || event.InvolvedObject.Kind != "Service" ||
				!strings.Contains(event.Message, "danm.io/clusterNetwork") || !strings.Contains(event.Message, "danm.io/selector") {
				return fmt.Errorf("the event is %+v", event)
			}
			return nil
		}
		return fmt.Errorf("no event says so: %+v", list.Items)
	})
}
