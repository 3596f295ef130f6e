// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	_ "embed" // for again.yaml
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// ofTheOperator are the kinds whose specs the operator alone writes: nobody has a manifest.
var ofTheOperator = map[reflect.Type]bool{
	reflect.TypeFor[v1alpha1.AdmissionGrants](): true, reflect.TypeFor[v1alpha1.Address](): true, reflect.TypeFor[v1alpha1.AttachmentClaim](): true,
	reflect.TypeFor[v1alpha1.HostLink](): true, reflect.TypeFor[v1alpha1.NodeRoles](): true, reflect.TypeFor[v1alpha1.RollCall](): true,
	reflect.TypeFor[v1alpha1.ScaledEndpoint](): true, reflect.TypeFor[v1alpha1.Usage](): true, reflect.TypeFor[v1alpha1.ExternalAddress](): true,
	reflect.TypeFor[discoveryv1.EndpointSlice](): true, reflect.TypeFor[corev1.Endpoints](): true, //nolint:staticcheck // Endpoints are written for older programs
	reflect.TypeFor[nmstatev1beta1.NodeNetworkState](): true, reflect.TypeFor[nmstatev1beta1.NodeNetworkConfigurationEnactment](): true,
	reflect.TypeFor[multitenancyv1alpha1.MultitenantPodNetworkConfig](): true,
}

// keepsSpecs fails the test if a request of the operator has changed the spec of an object that
// people write. A tool that applies, replaces or synchronizes a manifest would set it back, and two
// programs would write in turns.
func (w *world) keepsSpecs(verb string, before client.Object) {
	w.t.Helper()
	if before == nil || ofTheOperator[reflect.TypeOf(before).Elem()] {
		return
	}
	if after, ok := w.api.objects[keyOf(before)]; ok && after.GetUID() == before.GetUID() && !reflect.DeepEqual(specOf(before), specOf(after)) {
		w.fail("the operator's %s changed the spec of %T %s from %+v to %+v", verb, before, before.GetName(), specOf(before), specOf(after))
	}
}

//go:embed testdata/again.yaml
var againManifests string

// ofPrograms are further kinds that nobody writes by hand.
var ofPrograms = []string{"VNIClaim", "PolicyIdentity", "DomainClaim", "HostVNIClaim", "RoleMember", "HostLinkReport", "NodeInfo", "MultiTenantPodNetworkConfig"}

// twinGroups are groups with kinds of others.
var twinGroups = map[string]string{
	danmv1.GroupVersion.Group:               danmiov1.GroupVersion.Group,
	multitenancyv1alpha1.GroupVersion.Group: acnv1alpha1.GroupVersion.Group,
}

// manifestsToWriteAgain returns them by a name for each, in the groups that have the kind.
func manifestsToWriteAgain(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for text := range strings.SplitSeq(againManifests, "\n---\n") {
		object := decoded(t, []byte(text))
		name := strings.TrimSuffix(object.GetKind()+" "+object.GetName(), " written")
		group := object.GroupVersionKind().Group
		all[name+" of "+group] = []byte(text)
		if twin := twinGroups[group]; twin != "" {
			all[name+" of "+twin] = []byte(strings.Replace(text, group, twin, 1))
		}
	}
	return all
}

// TestManifests_EachWrittenKind_Present: TestManifest_WrittenAgain_NothingChanges writes the manifests.
func TestManifests_EachWrittenKind_Present(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	covered := map[schema.GroupKind]bool{}
	for _, text := range manifestsToWriteAgain(t) {
		covered[decoded(t, text).GroupVersionKind().GroupKind()] = true
	}
	for kind, goType := range scheme.AllKnownTypes() {
		own := strings.HasPrefix(goType.PkgPath(), "github.com/alioth-net/alioth/api/") && !strings.HasSuffix(kind.Kind, "List")
		if own && !ofTheOperator[goType] && !slices.Contains(ofPrograms, kind.Kind) && !covered[kind.GroupKind()] {
			t.Errorf("testdata/again.yaml has no manifest of %s", kind.GroupKind())
		}
	}
}

// TestManifest_WrittenAgain_NothingChanges has three writers write each manifest three times. The object
// stays as the first of them wrote it, and its condition Ready, if the kind has one, is as before.
func TestManifest_WrittenAgain_NothingChanges(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.Delegation, cfg.NodeIPAM, cfg.NodeNetworkState = true, true, true
	r.operate(cfg)
	again := metav1.ObjectMeta{Name: "again"}
	for _, object := range []client.Object{
		newNamespace("again", "again"),
		&v1alpha1.VPC{ObjectMeta: again, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.66.0.0/16"}, AllowedTenants: []string{"again"}}},
		&v1alpha1.Subnet{ObjectMeta: again, Spec: v1alpha1.SubnetSpec{VPC: "again", CIDRs: []string{"10.66.1.0/24"}}},
		&v1alpha1.DelegationGrant{ObjectMeta: again, Spec: v1alpha1.DelegationGrantSpec{Namespaces: []string{"again"}, Plugins: []string{"bridge"}}},
		&multitenancyv1alpha1.PodNetwork{ObjectMeta: again, Spec: multitenancyv1alpha1.PodNetworkSpec{NetworkID: "again", SubnetResourceID: "again"}},
		&danmv1.TenantConfig{
			ObjectMeta:  again,
			HostDevices: []danmv1.HostDevice{{Name: "again0", VNIType: danmv1.VNITypeVLAN, VNIRange: "2100-2110"}},
			NetworkIDs:  map[string]danmv1.NetworkID{"bridge": "real-file"},
		},
	} {
		r.create(object)
		if _, namespace := object.(*corev1.Namespace); !namespace { // no controller would end it
			defer r.removes(object)
		}
	}
	for name, manifest := range manifestsToWriteAgain(t) {
		t.Run(name, func(t *testing.T) {
			defer r.removes(decoded(t, manifest))
			var before *metav1.Condition
			for _, writer := range []struct {
				name  string
				write func(t *testing.T, r *rig, manifest []byte, again bool) *unstructured.Unstructured
			}{{"apply", applies}, {"server-side apply", appliesAtTheServer}, {"replace", replaces}} {
				for i := range 3 {
					object := writer.write(t, r, manifest, i > 0)
					ready, err := settled(r, object)
					if err == nil && before != nil && (ready.Status != before.Status || ready.Reason != before.Reason) {
						err = fmt.Errorf("Ready is %s (%s: %s), and was %s (%s) before", ready.Status, ready.Reason, ready.Message, before.Status, before.Reason)
					}
					if err != nil {
						t.Fatalf("%s, time %d: %v", writer.name, i+1, err)
					}
					before = ready
				}
			}
		})
	}
}

// removes deletes an object and waits until it is gone.
func (r *rig) removes(object client.Object) {
	r.t.Helper()
	r.delete(object)
	r.gone(object)
}

// withoutReady are kinds without the condition Ready, and kinds with an object that may be not
// Ready because an older one serves.
var withoutReady = []string{"DelegationGrant", "NetworkAttachmentDefinition", "NodeNetworkConfigurationPolicy", "NodeNetConfPolicy"}

// settled waits until the operator has told about the present object, and returns its condition
// Ready, nil for a kind without. It is an error if the object has changed since it was created.
func settled(r *rig, object *unstructured.Unstructured) (ready *metav1.Condition, err error) {
	r.t.Helper()
	r.eventually(func() error {
		if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(object), object); err != nil || slices.Contains(withoutReady, object.GetKind()) {
			return err
		}
		var status struct {
			Conditions []metav1.Condition `json:"conditions"`
		}
		content, _, _ := unstructured.NestedMap(object.Object, "status")
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
			return err
		}
		ready = meta.FindStatusCondition(status.Conditions, v1alpha1.ReadyCondition)
		switch {
		case ready == nil || ready.ObservedGeneration != object.GetGeneration():
			return fmt.Errorf("generation %d is not observed yet: %+v", object.GetGeneration(), ready)
		case object.GetKind() == "TenantConfig": // of two, the older serves
			return nil
		case ready.Status != metav1.ConditionTrue:
			return fmt.Errorf("it is not Ready: %s: %s", ready.Reason, ready.Message)
		}
		return nil
	})
	if object.GetGeneration() != 1 {
		return nil, fmt.Errorf("the spec was changed %d times: %v", object.GetGeneration()-1, object.Object["spec"])
	}
	return ready, nil
}

// decoded returns the object of a manifest.
func decoded(t *testing.T, manifest []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// applies writes a manifest as `kubectl apply` does: with a patch of the differences from the
// manifest of the last time, which an annotation has. Once it is written, nothing differs.
func applies(t *testing.T, r *rig, manifest []byte, again bool) *unstructured.Unstructured {
	t.Helper()
	object, there := decoded(t, manifest), decoded(t, manifest)
	text, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(text)})
	err = r.Get(t.Context(), client.ObjectKeyFromObject(object), there)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		r.create(object)
		return object
	}
	now, _ := json.Marshal(object.Object)
	live, _ := json.Marshal(there.Object)
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(there.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), now, live)
	if again && string(patch) != "{}" {
		t.Errorf("the object differs from the manifest that was applied: %s", patch)
	}
	if err == nil {
		err = r.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// appliesAtTheServer writes a manifest as `kubectl apply --server-side` does: a field that another
// writer has set to another value is a conflict.
func appliesAtTheServer(t *testing.T, r *rig, manifest []byte, _ bool) *unstructured.Unstructured {
	t.Helper()
	object := decoded(t, manifest)
	if err := r.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	return object
}

// replaces writes a manifest as `kubectl replace` does: fields that the manifest lacks go, the
// finalizers too. A person repeats the command when the operator has written in between.
func replaces(t *testing.T, r *rig, manifest []byte, _ bool) *unstructured.Unstructured {
	t.Helper()
	object := decoded(t, manifest)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		there := decoded(t, manifest)
		if err := r.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
			return err
		}
		object = decoded(t, manifest)
		object.SetResourceVersion(there.GetResourceVersion())
		return r.Update(t.Context(), object)
	})
	if apierrors.IsNotFound(err) {
		r.create(object)
		return object
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}
