// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
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
// people write. Whoever applies, replaces or synchronizes a manifest would set it back, and two
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

// manifests are of TenantNetworks, which have properties of a TenantConfig.
var manifests = map[string]string{
	"a number": `
apiVersion: danm.k8s.io/v1
kind: TenantNetwork
metadata: {name: number, namespace: again}
spec: {NetworkID: lan, NetworkType: macvlan, Options: {cidr: 10.66.1.0/24}}`,
	"a device": `
apiVersion: danm.io/v1
kind: TenantNetwork
metadata: {name: device, namespace: again}
spec: {NetworkID: lan, Options: {host_device: again0}}`,
	"a plugin": `
apiVersion: danm.k8s.io/v1
kind: TenantNetwork
metadata: {name: plugin, namespace: again}
spec: {NetworkID: br, NetworkType: bridge}`,
	"a plugin without a NetworkID": `
apiVersion: danm.io/v1
kind: TenantNetwork
metadata: {name: bare, namespace: again}
spec: {NetworkType: bridge}`,
}

// TestAManifestCanBeWrittenAgain has three writers write each manifest three times. The object
// stays what the first of them wrote, and Ready.
func TestAManifestCanBeWrittenAgain(t *testing.T) {
	r := start(t)
	config := &danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "again"}, HostDevices: []danmv1.HostDevice{
		{Name: "again0", VNIType: danmv1.VNITypeVLAN, VNIRange: "2100-2110"},
	}, NetworkIDs: map[string]danmv1.NetworkID{"bridge": "real-file"}}
	r.create(newNamespace("again", ""), config)
	defer r.delete(config)
	sees(r, config, func(c *danmv1.TenantConfig) error { return ready(c.Status.Conditions, v1alpha1.ReadyReason) })
	for name, manifest := range manifests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				object := decoded(t, []byte(manifest))
				r.delete(object)
				r.gone(object)
			}()
			for writer, write := range map[string]func(*testing.T, *rig, []byte) *unstructured.Unstructured{
				"apply": applies, "server-side apply": appliesAtTheServer, "replace": replaces,
			} {
				for i := range 3 {
					object := write(t, r, []byte(manifest))
					if err := settled(r, object); err != nil {
						t.Fatalf("%s, time %d: %v", writer, i+1, err)
					}
				}
			}
		})
	}
}

// settled waits until the operator has told about the present object, and returns an error if
// that has changed since it was created.
func settled(r *rig, object *unstructured.Unstructured) error {
	r.t.Helper()
	r.eventually(func() error {
		if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		if observed != object.GetGeneration() || len(object.GetFinalizers()) == 0 {
			return fmt.Errorf("generation %d is observed of %d; finalizers %v", observed, object.GetGeneration(), object.GetFinalizers())
		}
		var status danmv1.NetworkStatus
		content, _, _ := unstructured.NestedMap(object.Object, "status")
		text, err := json.Marshal(content)
		if err == nil {
			err = json.Unmarshal(text, &status)
		}
		if err != nil {
			return err
		}
		return ready(status.Conditions, v1alpha1.ReadyReason)
	})
	if object.GetGeneration() != 1 {
		return fmt.Errorf("the spec was changed %d times: %v", object.GetGeneration()-1, object.Object["spec"])
	}
	return nil
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

// applies writes a manifest as `kubectl apply` does: with a patch of what differs from the
// manifest of the last time, which an annotation has.
func applies(t *testing.T, r *rig, manifest []byte) *unstructured.Unstructured {
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
	if err == nil {
		err = r.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// appliesAtTheServer writes a manifest as `kubectl apply --server-side` does: what another
// writer has set to another value is a conflict.
func appliesAtTheServer(t *testing.T, r *rig, manifest []byte) *unstructured.Unstructured {
	t.Helper()
	object := decoded(t, manifest)
	if err := r.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	return object
}

// replaces writes a manifest as `kubectl replace` does: what the manifest lacks goes, the
// finalizers too. A person repeats the command when the operator has written in between.
func replaces(t *testing.T, r *rig, manifest []byte) *unstructured.Unstructured {
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
