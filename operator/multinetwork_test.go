// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/needs"
)

func TestTenantNetwork_RealAPI_GetsProfile(t *testing.T) {
	r := start(t)
	config := &danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "profiles"}, HostDevices: []danmv1.HostDevice{
		{Name: "ens4", VNIType: danmv1.VNITypeVLAN, VNIRange: "2000-2001"},
	}, NetworkIDs: map[string]danmv1.NetworkID{"Flannel": "cbr0"}}
	r.create(newNamespace("profiles", ""), config)
	defer r.delete(config)
	sees(r, config, func(c *danmv1.TenantConfig) error { return ready(c.Status.Conditions, v1alpha1.ReadyReason) })
	first := &danmiov1.TenantNetwork{
		ObjectMeta: metav1.ObjectMeta{Namespace: "profiles", Name: "first"},
		Spec:       danmv1.NetworkSpec{NetworkID: "internal", Options: danmv1.NetworkOptions{CIDR: "10.240.1.0/24", ContainerPrefix: "int"}},
	}
	r.create(first)
	sees(r, first, func(n *danmiov1.TenantNetwork) error { return ready(n.Status.Conditions, v1alpha1.ReadyReason) })
	given := danmv1.NetworkProfile{NetworkType: "ipvlan", NetworkID: "internal", HostDevice: "ens4", VLAN: 2000}
	if p := first.Status.Profile; p == nil || *p != given || first.Generation != 1 {
		t.Errorf("the profile is %+v, and the spec %+v", p, first.Spec)
	}
	if first.Status.Total != 254 || first.Status.Free != 254 || !meta.IsStatusConditionTrue(first.Status.Conditions, v1alpha1.ProfileCondition) {
		t.Errorf("the status is %+v", first.Status)
	}
	static := &danmv1.TenantNetwork{
		ObjectMeta: metav1.ObjectMeta{Namespace: "profiles", Name: "static"}, Spec: danmv1.NetworkSpec{NetworkType: "flannel", NetworkID: "hupak"},
	}
	second := &danmv1.TenantNetwork{ObjectMeta: metav1.ObjectMeta{Namespace: "profiles", Name: "second"}, Spec: danmv1.NetworkSpec{NetworkID: "internal"}}
	third := &danmv1.TenantNetwork{ObjectMeta: metav1.ObjectMeta{Namespace: "profiles", Name: "third"}, Spec: danmv1.NetworkSpec{NetworkID: "internal"}}
	r.create(static, second)
	sees(r, second, tenantNetworkReady(v1alpha1.ReadyReason))
	sees(r, static, tenantNetworkReady(v1alpha1.NetworkTypeReason)) // no node of this cluster runs plugins
	if p := second.Status.Profile; p == nil || p.VLAN != 2001 {
		t.Errorf("the profile of %s is %+v", second.Name, p)
	}
	if p := static.Status.Profile; p == nil || *p != (danmv1.NetworkProfile{NetworkType: "flannel", NetworkID: "cbr0", NetworkIDGiven: true}) ||
		static.Spec.NetworkID != "hupak" {
		t.Errorf("the profile of %s is %+v, and its spec %+v", static.Name, p, static.Spec)
	}
	r.create(third)
	sees(r, third, tenantNetworkReady(v1alpha1.VNIExhaustedReason))
	r.announced(third, v1alpha1.VNIExhaustedReason)
	r.delete(first)
	r.gone(first)
	sees(r, third, tenantNetworkReady(v1alpha1.ReadyReason))
	for _, network := range []client.Object{static, second, third} {
		r.delete(network)
		r.gone(network)
	}
	r.eventually(func() error {
		var list v1alpha1.HostVNIClaimList
		if err := r.List(t.Context(), &list); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d claims are left, error %w", len(list.Items), err)
		}
		return nil
	})
}

// TestTenantNetwork_ProfileInSpec_SpecGivenBack: an earlier version of the operator wrote the profile into the spec.
func TestTenantNetwork_ProfileInSpec_SpecGivenBack(t *testing.T) {
	r := newRig(t)
	config := &danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "given-back"}, HostDevices: []danmv1.HostDevice{
		{Name: "ens4", VNIType: danmv1.VNITypeVLAN, VNIRange: "2200-2201"},
	}}
	network := &danmv1.TenantNetwork{ObjectMeta: metav1.ObjectMeta{Namespace: "given-back", Name: "old"}, Spec: danmv1.NetworkSpec{NetworkID: "mine"}}
	r.create(newNamespace("given-back", ""), config, network)
	defer r.delete(config)
	written := decoded(t, []byte(`
apiVersion: danm.k8s.io/v1
kind: TenantNetwork
metadata: {name: old, namespace: given-back}
spec: {NetworkID: internal, NetworkType: ipvlan, Options: {host_device: ens4, vlan: 2201}}`))
	if err := r.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(written), client.FieldOwner("alioth-tenant-profile"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	r.get(network)
	before := network.DeepCopy()
	network.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ProfileCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ProfileReason, LastTransitionTime: metav1.Now(),
	}}
	if err := r.Status().Patch(t.Context(), network, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.operate(testConfig())
	sees(r, network, func(n *danmv1.TenantNetwork) error {
		if n.Spec.Options.VLAN != 0 || n.Spec.NetworkID != "internal" {
			return fmt.Errorf("the spec is %+v", n.Spec)
		}
		return ready(n.Status.Conditions, v1alpha1.ReadyReason)
	})
	if p := network.Status.Profile; p == nil || p.VLAN != 2201 || p.HostDevice != "ens4" {
		t.Errorf("the profile is %+v", p)
	}
	r.delete(network)
	r.gone(network)
}

// TestTenantNetwork_SpecRefusedByRules_SpecLeft: rules that are younger than the network refuse its spec
// without the values of an earlier version.
func TestTenantNetwork_SpecRefusedByRules_SpecLeft(t *testing.T) {
	needs.Kubernetes(t)
	own, err := apiserver.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	r := adopts(t, own)
	config := &danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "left"}, HostDevices: []danmv1.HostDevice{
		{Name: "ens4", VNIType: danmv1.VNITypeVLAN, VNIRange: "2200-2201"},
	}}
	network := &danmv1.TenantNetwork{ObjectMeta: metav1.ObjectMeta{Namespace: "adopted", Name: "old"}, Spec: danmv1.NetworkSpec{
		NetworkID: "refused", NetworkType: "ipvlan", Options: danmv1.NetworkOptions{HostDevice: "ens4"},
	}}
	r.create(config, network)
	before := network.DeepCopy()
	network.Spec.Options.VLAN = 2201
	if err := r.Patch(t.Context(), network, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	before = network.DeepCopy()
	network.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ProfileCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ProfileReason, LastTransitionTime: metav1.Now(),
	}}
	if err := r.Status().Patch(t.Context(), network, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.changeCRDs(func(crd *apiextensionsv1.CustomResourceDefinition) {
		if crd.Spec.Names.Kind != "TenantNetwork" {
			return
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{
			Rule: "self.NetworkID != 'refused' || has(self.Options) && has(self.Options.vlan)", Message: "a younger rule",
		})
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	})
	bare := &danmv1.TenantNetwork{ObjectMeta: metav1.ObjectMeta{Namespace: "adopted", Name: "bare"}, Spec: danmv1.NetworkSpec{NetworkID: "refused"}}
	r.eventually(func() error {
		if err := r.Create(t.Context(), bare.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the rule does not refuse yet: %w", err)
		}
		return nil
	})
	r.operate(testConfig())
	sees(r, network, func(n *danmv1.TenantNetwork) error {
		refused := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.SpecHandedBackCondition)
		if refused == nil || refused.Reason != v1alpha1.SpecRefusedReason || !strings.Contains(refused.Message, "a younger rule") {
			return fmt.Errorf("the conditions are %+v", n.Status.Conditions)
		}
		return ready(n.Status.Conditions, v1alpha1.ReadyReason)
	})
	if p := network.Status.Profile; p == nil || p.VLAN != 2201 || network.Spec.Options.VLAN != 2201 {
		t.Errorf("the profile is %+v, and the spec %+v", p, network.Spec)
	}
	// Another NetworkID makes the rule fit, and the operator tries again.
	before = network.DeepCopy()
	network.Spec.NetworkID = "fits"
	if err := r.Patch(t.Context(), network, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	sees(r, network, func(n *danmv1.TenantNetwork) error {
		if n.Spec.Options.VLAN != 0 || meta.FindStatusCondition(n.Status.Conditions, v1alpha1.SpecHandedBackCondition) != nil {
			return fmt.Errorf("the spec is %+v, the conditions %+v", n.Spec, n.Status.Conditions)
		}
		return ready(n.Status.Conditions, v1alpha1.ReadyReason)
	})
	r.delete(network)
	r.gone(network)
}

func tenantNetworkReady(reason string) func(*danmv1.TenantNetwork) error {
	return func(n *danmv1.TenantNetwork) error { return ready(n.Status.Conditions, reason) }
}

func TestOperator_OptionalKindsMissing_Works(t *testing.T) {
	w := newWorld(t)
	w.api.lacks = []*descriptor.Kind{outside.Networks[0].Kind, outside.TenantConfigs[1].Kind}
	o := w.operate()
	if !slices.Equal(o.missing, w.api.lacks) {
		t.Errorf("missing are %v, want %v", typesOf(o.missing), typesOf(w.api.lacks))
	}
	for _, kind := range w.api.lacks {
		for _, i := range o.inputs.all {
			if i.kind == keyOf(kind.NewObject()).kind && i.handler != nil {
				t.Errorf("%T is watched", kind.Object)
			}
		}
	}
	w.create(newVPC("blue", nil, "10.0.0.0/16"))
	w.settle()
	if vpc := sorted[*v1alpha1.VPC](w.api)[0]; ready(vpc.Status.Conditions, v1alpha1.ReadyReason) != nil {
		t.Errorf("the VPC is %+v", vpc.Status)
	}
}

func TestInformers_AreaOff_None(t *testing.T) {
	on, off := DefaultConfig(), DefaultConfig()
	off.MultiNetwork = false
	if len(modules(on)) != len(modules(off))+2 {
		t.Fatalf("%d modules, %d without networks outside of VPCs", len(modules(on)), len(modules(off)))
	}
	for _, area := range modules(off) {
		for _, kind := range area.kinds {
			if kind.Optional {
				t.Errorf("%T is watched", kind.Object)
			}
		}
	}
}

// noKinds is an API that has no optional kind, or answers with an error.
type noKinds struct{ err error }

// has implements optionalKinds.
func (n noKinds) has(*descriptor.Kind) (bool, error) { return false, n.err }

func TestPresent_KindMissing_OnlyOptionalAccepted(t *testing.T) {
	all := []*descriptor.Kind{vpcs.VPC.Kind, outside.HostVNIClaim.Kind}
	watched, missing, err := present(all, noKinds{})
	if err != nil || len(watched) != 1 || watched[0] != vpcs.VPC.Kind || len(missing) != 1 {
		t.Errorf("watched %v, missing %v, error %v", typesOf(watched), typesOf(missing), err)
	}
	unknown := errors.New("no reply")
	if _, _, err := present(all, noKinds{unknown}); !errors.Is(err, unknown) {
		t.Errorf("error %v", err)
	}
}

// TestNetwork_PodWithoutAddresses_GoesAfterIt: only the AttachmentClaim of such a pod keeps
// its network, until the pod's node reports that the interface is gone.
func TestNetwork_PodWithoutAddresses_GoesAfterIt(t *testing.T) {
	w := calm(t)
	rack := &danmv1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "rack"},
		Spec:       danmv1.NetworkSpec{NetworkType: "macvlan", NetworkID: "rack", Options: danmv1.NetworkOptions{HostDevice: "ens4"}},
	}
	w.create(newNode("node-9"), newAnswer("node-9")) // the test is its daemon
	web := bound("web", "", "", "node-9")
	web.Annotations = map[string]string{annotations.InterfacesKey: `[{"vpc":"blue"},{"clusterNetwork":"rack","ip":"none"}]`}
	w.create(rack)
	w.settle()
	w.create(web)
	w.settle()
	claims := sorted[*v1alpha1.AttachmentClaim](w.api)
	if err := hasReason(v1alpha1.AttachedReason)(w.pod("web")); err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, error %v", len(claims), err)
	}
	w.mustDelete(claims[0]) // by hand
	w.settle()
	if held := sorted[*v1alpha1.AttachmentClaim](w.api); len(held) != 1 || held[0].UID != claims[0].UID || held[0].DeletionTimestamp == nil {
		t.Fatalf("after a claim was deleted by hand: %+v", held)
	}
	w.reportsReleased()
	if again := sorted[*v1alpha1.AttachmentClaim](w.api); len(again) != 1 || again[0].UID == claims[0].UID {
		t.Fatalf("after the node reported that the pod has no interface: %+v", again)
	}
	w.mustDelete(rack)
	w.settle()
	left := sorted[*danmv1.ClusterNetwork](w.api)
	if len(left) != 1 || left[0].Status.Pods != 1 {
		t.Fatalf("with a pod: %+v", left)
	}
	w.mustDelete(w.pod("web"))
	w.settle()
	left = sorted[*danmv1.ClusterNetwork](w.api)
	if len(left) != 1 || left[0].Status.Pods != 1 || !strings.Contains(left[0].Status.Conditions[0].Message, "shop/web on node-9") {
		t.Fatalf("while the node has the interface: %+v", left)
	}
	w.reportsReleased()
	if left := sorted[*danmv1.ClusterNetwork](w.api); len(left) != 0 {
		t.Errorf("without a pod: %+v", left[0].Status)
	}
}

// reportsReleased has the node report that the interface of the only AttachmentClaim is gone.
func (w *world) reportsReleased() {
	held := sorted[*v1alpha1.AttachmentClaim](w.api)[0]
	released := held.DeepCopy()
	released.Status.Released = true
	w.api.keep(released, held)
	w.settle()
}

// TestNetwork_ClaimDeletedAndPrefixChanged_StaysUsed changes the names of future interfaces, and
// deletes the AttachmentClaim of a running pod. The pod has its interface until the node reports
// another state, so the network must not go.
func TestNetwork_ClaimDeletedAndPrefixChanged_StaysUsed(t *testing.T) {
	w := calm(t)
	rack := &danmv1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "rack"},
		Spec:       danmv1.NetworkSpec{NetworkType: "macvlan", NetworkID: "rack", Options: danmv1.NetworkOptions{HostDevice: "ens4"}},
	}
	w.create(newNode("node-9"), newAnswer("node-9")) // the test is its daemon
	web := bound("web", "", "", "node-9")
	web.Annotations = map[string]string{annotations.InterfacesKey: `[{"vpc":"blue"},{"clusterNetwork":"rack","ip":"none"}]`}
	w.create(rack)
	w.settle()
	w.create(web)
	w.settle()
	before := w.pod("web").Annotations[v1alpha1.AttachmentsAnnotation]
	present := sorted[*danmv1.ClusterNetwork](w.api)[0]
	renamed := clone(present)
	renamed.Spec.Options.ContainerPrefix, renamed.Generation = "zz", renamed.Generation+1
	w.api.keep(renamed, present)
	w.settle()
	w.mustDelete(sorted[*v1alpha1.AttachmentClaim](w.api)[0])
	w.settle()
	w.mustDelete(rack)
	w.settle()
	left := sorted[*danmv1.ClusterNetwork](w.api)
	if len(left) != 1 || left[0].Status.Pods != 1 {
		t.Errorf("the network of a running pod: %+v", left)
	}
	if after := w.pod("web").Annotations[v1alpha1.AttachmentsAnnotation]; after != before {
		t.Errorf("the pod has %s, had %s", after, before)
	}
}

// TestNetwork_StatusLostAndNetworkDeleted_StaysUsed removes the allocation status of a pod, as if the
// operator had ended before it wrote the status, and deletes the pod's network. The operator refuses
// the pod then. The node may have the interface, so the network stays until the node reports.
func TestNetwork_StatusLostAndNetworkDeleted_StaysUsed(t *testing.T) {
	w := calm(t)
	rack := &danmv1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "rack"},
		Spec:       danmv1.NetworkSpec{NetworkType: "macvlan", NetworkID: "rack", Options: danmv1.NetworkOptions{HostDevice: "ens4"}},
	}
	w.create(newNode("node-9"), newAnswer("node-9")) // the test is its daemon
	web := bound("web", "", "", "node-9")
	web.Annotations = map[string]string{annotations.InterfacesKey: `[{"vpc":"blue"},{"clusterNetwork":"rack","ip":"none"}]`}
	w.create(rack)
	w.settle()
	w.create(web)
	w.settle()
	decided := w.pod("web")
	undecided := clone(decided)
	delete(undecided.Annotations, v1alpha1.AttachmentsAnnotation)
	undecided.Status.Conditions = nil
	w.api.keep(undecided, decided)
	w.mustDelete(rack)
	w.settle()
	claims := sorted[*v1alpha1.AttachmentClaim](w.api)
	if left := sorted[*danmv1.ClusterNetwork](w.api); len(left) != 1 || len(claims) != 1 || claims[0].DeletionTimestamp == nil {
		t.Fatalf("%d networks, claims %+v", len(left), claims)
	}
	w.reportsReleased()
	if left := sorted[*danmv1.ClusterNetwork](w.api); len(left) != 0 {
		t.Errorf("the network stays: %+v", left[0].Status)
	}
}
