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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// TestPodStart_HostileObjects_NotHindered writes objects that contradict themselves or others, as
// an administrator would by mistake, and as tenants and kubelets do on purpose. The API refuses
// many of them. Refused Addresses are then stored by a definition without rules, like the
// definition of an earlier release. A pod of another tenant starts on each node while all of them
// are there. The scene runs alone, because it changes a definition.
func TestPodStart_HostileObjects_NotHindered(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	bad, good := e.Tenant(t, stage.Overlapping("bad")), e.Tenant(t, stage.Overlapping("good"))
	// The first node has the VPC, and does not know the pod in whose name the objects are.
	held, far := bad.Pod("held", scene.OnNode(first)), bad.Pod("far", scene.OnNode(second))
	e.Run(t, held, far)
	stored, refused := e.store(t, hostileObjects(bad.Name, far, second))
	t.Logf("the API stores %d hostile objects and refuses %d", len(stored), len(refused))
	e.withoutRules(t, "addresses.alioth.dev", claimFor(far, bad.Name, "127.0.0.2", second))
	more, refused := e.store(t, refused)
	t.Logf("without the rules of Addresses it stores %d more and refuses %d", len(more), len(refused))
	stored = append(stored, more...)
	if len(stored) < 35 || len(stored)+len(refused) < 50 {
		t.Errorf("%d stored and %d refused are too few", len(stored), len(refused))
	}
	e.reportAddress(t, second, "fe80::1%eth0")
	condition := e.awaitUnhealthy(t, first)
	t.Logf("node %s says %s: %s", first, condition.Reason, condition.Message)

	here, there := good.Pod("here", scene.OnNode(first)), good.Pod("there", scene.OnNode(second))
	e.Run(t, here, there)
	answer := scene.Target("http", scene.IP(there, false))
	if results, err := e.Ask(stage.Within(t, stage.Patience), here, answerTime, answer); err != nil || len(results) != 1 || !results[0].OK {
		t.Errorf("the pods of the other tenant: %+v, %v", results, err)
	}
	if condition.Reason != v1alpha1.ObjectsLeftOutReason {
		t.Errorf("the reason of node %s is %s, want %s", first, condition.Reason, v1alpha1.ObjectsLeftOutReason)
	}
	e.stillThere(t, claimFor(far, bad.Name, "0.0.0.0", second))
}

// store creates objects for the time of a test. It returns the stored objects, and the objects that
// the API refuses.
func (e *env) store(t *testing.T, objects []client.Object) (stored, refused []client.Object) {
	t.Helper()
	for _, object := range objects {
		err := e.Client.Create(stage.Within(t, stage.Patience), object)
		switch {
		case err == nil:
			stored = append(stored, object)
			t.Cleanup(func() { e.takeAway(t, object) })
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
			refused = append(refused, object)
		default:
			t.Errorf("%T %s: %v", object, object.GetName(), err)
		}
	}
	return stored, refused
}

// takeAway deletes an object, without its finalizers. Admission wants to see the UID of an
// Address.
func (e *env) takeAway(t *testing.T, object client.Object) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	uid := object.GetUID()
	for _, err := range []error{e.Client.Patch(ctx, object, none), e.Client.Delete(ctx, object, client.Preconditions{UID: &uid})} {
		if client.IgnoreNotFound(err) != nil { // the operator may have been faster
			t.Error(err)
		}
	}
}

// stillThere requires that an object is in the API.
func (e *env) stillThere(t *testing.T, object client.Object) {
	t.Helper()
	if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("the pods started without the hostile object: %v", err)
	}
}

// awaitUnhealthy waits until a node's daemon says that something is wrong.
func (e *env) awaitUnhealthy(t *testing.T, node string) (condition corev1.NodeCondition) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "node "+node+" to report", func(ctx context.Context) (bool, string, error) {
		object := &corev1.Node{}
		err := e.Client.Get(ctx, client.ObjectKey{Name: node}, object)
		at := slices.IndexFunc(object.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == v1alpha1.NetworkHealthyCondition })
		if at >= 0 {
			condition = object.Status.Conditions[at]
		}
		return condition.Status == corev1.ConditionFalse, condition.Message, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return condition
}

// reportAddress adds an address to the status of a node, as its kubelet may.
func (e *env) reportAddress(t *testing.T, node, address string) {
	t.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	patch := func(text string) client.Patch { return client.RawPatch(types.StrategicMergePatchType, []byte(text)) }
	add := fmt.Sprintf(`{"status":{"addresses":[{"type":"ExternalIP","address":%q}]}}`, address)
	if err := e.Client.Status().Patch(stage.Within(t, stage.Patience), object, patch(add)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		remove := `{"status":{"addresses":[{"type":"ExternalIP","$patch":"delete"}]}}`
		if err := e.Client.Status().Patch(context.Background(), object, patch(remove)); err != nil {
			t.Error(err)
		}
	})
}

// hostileObjects are objects about a VPC and one of its pods, each with one hostile value.
func hostileObjects(vpc string, pod *corev1.Pod, otherNode string) (list []client.Object) {
	own := scene.IP(pod, false).As4()
	next := func() string { own[3]++; return netip.AddrFrom4(own).String() }
	claim := func(ip string, change func(*v1alpha1.Address)) {
		address := claimFor(pod, vpc, next(), otherNode)
		if ip != "" {
			address = claimFor(pod, vpc, ip, otherNode)
		}
		address.Annotations = nil
		// Without a finalizer the operator would remove most of them at once.
		address.Finalizers = []string{"example.com/hostile"}
		change(address)
		list = append(list, address)
	}
	for _, ip := range []string{"0.0.0.0", "255.255.255.255", "127.0.0.1", "224.0.0.1", "169.254.64.1", "192.0.2.1", "::", "::1", "ff02::1", "fe80::1", "fd00::9"} {
		claim(ip, func(*v1alpha1.Address) {})
	}
	for _, mac := range []string{"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "02:00:00:00:00:01", "x"} {
		claim("", func(a *v1alpha1.Address) { a.Spec.MAC = mac })
	}
	for _, text := range []string{"nobody", "0.0.0.0", strings.Repeat("x", 250), strings.Repeat("x", 64<<10)} {
		claim("", func(a *v1alpha1.Address) { a.Spec.Node = text })
		claim("", func(a *v1alpha1.Address) { a.Spec.Subnet = text })
		claim("", func(a *v1alpha1.Address) { a.Spec.Holder.UID = text })
		claim("", func(a *v1alpha1.Address) { a.Spec.Holder.Name = text })
	}
	for _, set := range [][]string{{"0.0.0.0"}, {"x"}, {"10.0.0.1", "10.0.0.2"}, {"::", "::"}, nil} {
		claim("", func(a *v1alpha1.Address) { a.Spec.Set = set })
	}
	for i, port := range []int32{0, -1, 65536, 70000, 1 << 30} {
		list = append(list, hostileSlice(pod.Namespace, fmt.Sprintf("port-%d", i), scene.IP(pod, false).String(), port))
	}
	for i, ip := range []string{"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "10.96.0.1", "fe80::1%eth0", "x"} {
		list = append(list, hostileSlice(pod.Namespace, fmt.Sprintf("address-%d", i), ip, 80))
	}
	return append(list, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: hostileService},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	})
}

// hostileService is the Service of the slices, in the namespace of the tenant.
const hostileService = "hostile"

func hostileSlice(namespace, name, ip string, port int32) *discoveryv1.EndpointSlice {
	ready, web := true, "web"
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      hostileService + "-" + name,
			Labels:    map[string]string{discoveryv1.LabelServiceName: hostileService},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &web, Port: &port}},
	}
}
