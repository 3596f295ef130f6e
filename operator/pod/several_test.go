// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// secondary returns a source of an interface net1 in VPC w with these IPs.
func secondary(ips ...string) Source {
	return func(store.ReadTx, *store.Pod) ([]Desired, *tenancy.Refusal) {
		return []Desired{{Interface: "net1", Kind: "other", Binding: Binding{VPC: "w"}, IPs: operatortest.Addrs(ips...)}}, nil
	}
}

// physical returns a source of an interface net2 outside of every VPC, without addresses.
func physical(store.ReadTx, *store.Pod) ([]Desired, *tenancy.Refusal) {
	rack := store.NetworkRef{Group: "danm.io", Kind: "ClusterNetwork", Name: "rack", UID: "uid-rack"}
	return []Desired{{Interface: "net2", Kind: "physical", Binding: Binding{Outside: rack}}}, nil
}

// rig is an operator's controller of one pod.
type rig struct {
	*testing.T
	client.WithWatch
	r      *Reconciler
	events *events.FakeRecorder
	// fails is asked before an object is created.
	fails func(name string) error
}

// newRig starts a controller for the pod "p" of a world with a second VPC, on an API
// that has the pod as given.
func newRig(t *testing.T, api client.WithWatch, pod *corev1.Pod, sources ...Source) *rig {
	t.Helper()
	s := operatortest.New(t, append(world(), operatortest.VPC("w", 3, nil, "10.1.0.0/16"),
		operatortest.Subnet("s2", "w", "s2", 0, "10.1.0.0/29"))...)
	g := &rig{T: t, events: events.NewFakeRecorder(100), fails: func(string) error { return nil }}
	g.WithWatch = interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if err := g.fails(object.GetName()); err != nil {
				return err
			}
			object.SetUID(types.UID("uid of " + object.GetName()))
			return c.Create(ctx, object, opts...)
		},
		SubResourcePatch: annotating,
	})
	now := clocktesting.NewFakePassiveClock(time.Unix(2_000_000, 0))
	claimer := &claim.Claimer{
		Client: g, Live: g, Store: s, Resting: &ipam.Resting{}, Term: operatortest.Term(true), Feed: feed.New(nil, logr.Discard()), Clock: now,
	}
	g.r = New(Options{Client: g, Live: g, Store: s, Claimer: claimer, Events: g.events, Sources: sources, Clock: now})
	g.hears(pod)
	return g
}

// annotating patches a pod's status with its annotations, as an API server does; the
// fake one leaves the annotations out.
func annotating(
	ctx context.Context,
	c client.Client,
	subresource string,
	object client.Object,
	patch client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	if err := c.SubResource(subresource).Patch(ctx, object, patch, opts...); err != nil {
		return err
	}
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	var sent podPatch
	if err := json.Unmarshal(text, &sent); err != nil {
		return err
	}
	text, err = json.Marshal(map[string]any{"metadata": map[string]any{"annotations": sent.Metadata.Annotations}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
}

// hears puts the pod and all Addresses into the store, as the API has them.
func (g *rig) hears(pod *corev1.Pod) {
	g.Helper()
	var list v1alpha1.AddressList
	err := errors.Join(g.Get(g.Context(), client.ObjectKeyFromObject(pod), pod), g.List(g.Context(), &list))
	row, convertErr := core.Pod.Convert(pod)
	if err = errors.Join(err, convertErr); err != nil {
		g.Fatal(err)
	}
	row.Tenant = "blue"
	err = g.r.Store.Update(func(tx store.Tx) error {
		for i := range list.Items {
			address, err := vpcs.Address.Convert(&list.Items[i])
			if err != nil {
				return err
			}
			if err := store.PutAddress(tx, address); err != nil {
				return err
			}
		}
		return store.PutPod(tx, row)
	})
	if err != nil {
		g.Fatal(err)
	}
}

func (g *rig) reconcile() error {
	_, err := g.r.Reconcile(g.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: "p"}})
	return err
}

// addresses returns the names of the Address objects, each with its interface.
func (g *rig) addresses() (all []string) {
	g.Helper()
	var list v1alpha1.AddressList
	if err := g.List(g.Context(), &list); err != nil {
		g.Fatal(err)
	}
	for _, item := range list.Items {
		all = append(all, item.Spec.Attachment+" "+item.Name)
	}
	slices.Sort(all)
	return all
}

// recorded returns the pod's allocation status: its condition and its attachments.
func (g *rig) recorded(pod *corev1.Pod) (corev1.PodCondition, []netif.Interface) {
	g.Helper()
	if err := g.Get(g.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		g.Fatal(err)
	}
	var list []netif.Interface
	if text := pod.Annotations[v1alpha1.AttachmentsAnnotation]; text != "" {
		var err error
		if list, err = annotations.ParseAttachments(text); err != nil {
			g.Fatal(err)
		}
	}
	if len(pod.Status.Conditions) != 1 {
		g.Fatalf("the pod has the conditions %+v, want one", pod.Status.Conditions)
	}
	return pod.Status.Conditions[0], list
}

func newAPI(t *testing.T, pod *corev1.Pod, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(pod).WithObjects(append(objects, pod)...).Build()
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "uid-a-p", Labels: map[string]string{arktosv1.NetworkLabel: "n"}},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	}
}

// strangers returns the Address object of another pod that has 10.1.0.3 of VPC w.
func strangers() *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: "w.10.1.0.3", UID: "stranger's"},
		Spec: v1alpha1.AddressSpec{
			VPC: "w", Subnet: "s2", IP: "10.1.0.3", MAC: "02:00:0a:01:00:03", Node: "node-2", Attachment: "eth0", Set: []string{"10.1.0.3"},
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "b", Name: "q", UID: "q"},
		},
	}
}

var both = []string{"eth0 v.10.0.1.2", "eth0 v.fd00-0-0-1--2", "net1 w.10.1.0.2"}

func TestPass_SeveralAttachments_ToldAtOnce(t *testing.T) {
	pod := newPod()
	g := newRig(t, newAPI(t, pod), pod, Primary("default"), secondary(), physical)
	if err := g.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := g.addresses(); !slices.Equal(got, both) {
		t.Errorf("claimed %v, want %v", got, both)
	}
	condition, list := g.recorded(pod)
	if condition.Status != corev1.ConditionTrue || condition.Reason != v1alpha1.AttachedReason || len(list) != 3 {
		t.Fatalf("written %+v and %+v", condition, list)
	}
	for i, want := range []netif.Interface{
		{Name: "eth0", Kind: "veth", Network: "a/n", VPC: "v", Subnet: "s1"},
		{Name: "net1", Kind: "other", VPC: "w", Subnet: "s2"},
		{Name: "net2", Kind: "physical", Outside: "ClusterNetwork/rack"},
	} {
		got := list[i]
		if got.Name != want.Name || got.Kind != want.Kind || got.Network != want.Network || got.VPC != want.VPC || got.Subnet != want.Subnet ||
			got.Outside != want.Outside {
			t.Errorf("attachment %d is %+v, want %+v", i, got, want)
		}
	}
	if input := pod.Annotations[arktosv1.UserInputAnnotation]; input != `{"vpc": "v", "net": "net1", "ip": "10.0.1.2"}` {
		t.Errorf("the user input is %s", input)
	}
	g.hears(pod)
	if err := g.reconcile(); err != nil || !slices.Equal(g.addresses(), both) {
		t.Errorf("looking again: error %v, addresses %v", err, g.addresses())
	}
}

func TestPass_SecondAttachmentRefused_FirstReleased(t *testing.T) {
	for _, tc := range []struct {
		name string
		held bool // the first attachment's claims were made before
	}{{"nothing claimed", false}, {"the first one claimed before", true}} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod()
			api := newAPI(t, pod, strangers())
			if tc.held {
				died := errors.New("died")
				first := newRig(t, api, pod, Primary("default"), secondary())
				first.fails = func(name string) error {
					if strings.HasPrefix(name, "w.") {
						return died
					}
					return nil
				}
				if err := first.reconcile(); !errors.Is(err, died) || len(first.addresses()) != 3 {
					t.Fatalf("error %v, addresses %v", err, first.addresses())
				}
			}
			g := newRig(t, api, pod, Primary("default"), secondary("10.1.0.3"))
			if err := g.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := g.addresses(); !slices.Equal(got, []string{"eth0 w.10.1.0.3"}) {
				t.Errorf("addresses %v, want the stranger's alone", got)
			}
			condition, list := g.recorded(pod)
			if condition.Status != corev1.ConditionFalse || condition.Reason != v1alpha1.IPReleasingReason ||
				!strings.HasPrefix(condition.Message, "interface net1: ") || list != nil {
				t.Errorf("written %+v and %+v, want a refusal that names the interface", condition, list)
			}
			if len(g.events.Events) != 1 || len(g.r.waiting.pods) != 1 {
				t.Errorf("%d events, %d pods wait; want one of each", len(g.events.Events), len(g.r.waiting.pods))
			}
		})
	}
}

func TestPass_SourceRefuses_NothingClaimed(t *testing.T) {
	pod := newPod()
	twice := func(tx store.ReadTx, p *store.Pod) ([]Desired, *tenancy.Refusal) { return secondary()(tx, p) }
	g := newRig(t, newAPI(t, pod), pod, Primary("default"), secondary(), twice)
	if err := g.reconcile(); err != nil {
		t.Fatal(err)
	}
	condition, _ := g.recorded(pod)
	if condition.Reason != v1alpha1.NICInvalidReason || !strings.HasPrefix(condition.Message, "interface net1: ") || len(g.addresses()) > 0 {
		t.Errorf("written %+v, addresses %v", condition, g.addresses())
	}
}

// An operator that has just started finds the claims of each interface by the pod's UID and
// completes them. It deletes claims for interfaces that the pod is not to have.
func TestPass_OperatorRestarted_ClaimsFoundByInterface(t *testing.T) {
	died := errors.New("died")
	for _, tc := range []struct {
		name    string
		diesAt  string
		sources []Source
		want    []string
	}{
		{"before the second attachment", "w.10.1.0.2", []Source{Primary("default"), secondary()}, both},
		{"within the first one", "v.fd00-0-0-1--2", []Source{Primary("default"), secondary()}, both},
		{"before the pod was written, which is to have one by now", "written", []Source{Primary("default")}, both[:2]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod()
			api := newAPI(t, pod)
			first := newRig(t, api, pod, Primary("default"), secondary())
			first.fails = func(name string) error {
				if name == tc.diesAt {
					return died
				}
				return nil
			}
			if tc.diesAt == "written" {
				first.r.Client = interceptor.NewClient(api, interceptor.Funcs{
					SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
						return died
					},
				})
			}
			if err := first.reconcile(); !errors.Is(err, died) {
				t.Fatalf("got %v", err)
			}
			second := newRig(t, api, pod, tc.sources...)
			if err := second.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := second.addresses(); !slices.Equal(got, tc.want) {
				t.Errorf("addresses %v, want %v", got, tc.want)
			}
			if condition, list := second.recorded(pod); condition.Status != corev1.ConditionTrue || len(list) != len(tc.sources) {
				t.Errorf("written %+v and %+v", condition, list)
			}
		})
	}
}

// One interface is restored, independent of another interface, whose address somebody has.
func TestPass_OneAddressTaken_OtherAttachmentRestored(t *testing.T) {
	pod := newPod()
	api := newAPI(t, pod)
	g := newRig(t, api, pod, Primary("default"), secondary("10.1.0.3"))
	if err := g.reconcile(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v.10.0.1.2", "w.10.1.0.3"} {
		if err := api.Delete(t.Context(), &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Create(t.Context(), strangers()); err != nil {
		t.Fatal(err)
	}
	second := newRig(t, api, pod, Primary("default"), secondary("10.1.0.3"))
	if err := second.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := []string{"eth0 v.10.0.1.2", "eth0 v.fd00-0-0-1--2", "eth0 w.10.1.0.3"}
	if got := second.addresses(); !slices.Equal(got, want) {
		t.Errorf("addresses %v, want the first attachment's and the stranger's", got)
	}
	if len(second.events.Events) != 1 {
		t.Fatalf("%d events, want one", len(second.events.Events))
	}
	if event := <-second.events.Events; !strings.Contains(event, "can't restore the address of interface net1") {
		t.Errorf("the event is %q", event)
	}
}

// TestPass_StoreBehind_StatusKept: the watch of Addresses may be later than the watch of
// pods, and the pod would be refused by now.
func TestPass_StoreBehind_StatusKept(t *testing.T) {
	pod := newPod()
	api := newAPI(t, pod)
	first := newRig(t, api, pod, Primary("default"))
	if err := first.reconcile(); err != nil {
		t.Fatal(err)
	}
	second := newRig(t, api, pod, func(store.ReadTx, *store.Pod) ([]Desired, *tenancy.Refusal) {
		return nil, &tenancy.Refusal{Reason: v1alpha1.NetworkNotFoundReason, Message: "gone"}
	})
	if err := second.r.Store.Update(func(tx store.Tx) error {
		for _, row := range store.ListAddresses(tx) {
			store.DeleteAddress(tx, row.Name, row.UID)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := second.reconcile(); err != nil {
		t.Fatal(err)
	}
	if condition, list := second.recorded(pod); condition.Status != corev1.ConditionTrue || len(list) != 1 {
		t.Errorf("written %+v and %+v", condition, list)
	}
	if got := second.addresses(); len(got) != 2 || len(second.events.Events) > 0 {
		t.Errorf("addresses %v, %d events", got, len(second.events.Events))
	}
}
