// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store/client/kube"
)

// recorder notes requests instead of making them.
type recorder struct{ requests []string }

func (r *recorder) Patch(_ context.Context, object kube.Object, kind types.PatchType, data []byte, subresource ...string) error {
	text := object.GetName()
	for _, one := range subresource {
		text += "/" + one
	}
	if kind != types.JSONPatchType {
		text += " as " + string(kind)
	}
	r.requests = append(r.requests, text+" "+string(data))
	return nil
}

func document(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestStatusPatch_FieldsDiffer_OnlyThose(t *testing.T) {
	with := func(change func(*nmstatev1beta1.NodeNetworkState)) *nmstatev1beta1.NodeNetworkState {
		object := &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		change(object)
		return object
	}
	reported := func(o *nmstatev1beta1.NodeNetworkState) {
		o.ResourceVersion, o.Status.Refused, o.Status.ObservedDesiredGeneration = "7", "old", 3
		o.Status.CurrentState = document(`{"interfaces": [{"name": "eth0"}], "dns-resolver": {}}`)
	}
	for name, c := range map[string]struct {
		object *nmstatev1beta1.NodeNetworkState
		sets   []kube.Set
		want   string
	}{
		"a status that is not there": {
			object: with(func(*nmstatev1beta1.NodeNetworkState) {}),
			sets:   []kube.Set{{Field: "refused", Value: "x"}, {Field: "moreOwners", Value: 2}, {Field: "owners", Value: []string{}}},
			want:   `n1/status [{"op":"add","path":"/status","value":{"moreOwners":2,"refused":"x"}}]`,
		},
		"a document": {
			object: with(reported), sets: []kube.Set{{Field: "currentState", Value: map[string]any{}}},
			want: `n1/status [{"op":"add","path":"/status/currentState","value":{}},{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`,
		},
		"the same document": {
			object: with(reported),
			sets: []kube.Set{{Field: "currentState", Value: map[string]any{
				"dns-resolver": map[string]any{}, "interfaces": []any{map[string]any{"name": "eth0"}},
			}}},
		},
		"fields that end": {
			object: with(reported),
			sets: []kube.Set{
				{Field: "refused", Value: ""},
				{Field: "observedDesiredGeneration", Value: nil},
				{Field: "currentState", Value: map[string]any(nil)},
				{Field: "desiredStateHash", Value: ""},
			},
			want: `n1/status [{"op":"remove","path":"/status/refused"},{"op":"remove","path":"/status/observedDesiredGeneration"},` +
				`{"op":"remove","path":"/status/currentState"},{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`,
		},
		"nothing": {object: with(func(*nmstatev1beta1.NodeNetworkState) {}), sets: []kube.Set{{Field: "refused", Value: ""}}},
	} {
		api := &recorder{}
		if err := kube.PatchStatus(t.Context(), api, c.object, c.sets...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == "" && len(api.requests) > 0 || c.want != "" && (len(api.requests) != 1 || api.requests[0] != c.want) {
			t.Errorf("%s: requests %q, want %s", name, api.requests, c.want)
		}
	}
}

func TestStatusPatch_ValueNotJSON_NotWritten(t *testing.T) {
	api, object := &recorder{}, &nmstatev1beta1.NodeNetworkState{}
	if err := kube.PatchStatus(t.Context(), api, object, kube.Set{Field: "refused", Value: func() {}}); err == nil || len(api.requests) > 0 {
		t.Errorf("error %v, requests %q", err, api.requests)
	}
}

func TestStatusPatch_RealAPI_OldVersionRefused(t *testing.T) {
	c := newClient(t, nmstatev1beta1.AddToScheme)
	read := func() *nmstatev1beta1.NodeNetworkState {
		object := &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: "patched"}}
		if err := c.Get(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	if err := c.Create(t.Context(), &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: "patched"}}); err != nil {
		t.Fatal(err)
	}
	first := read()
	for _, text := range []string{`{"interfaces":[{"name":"eth0","mtu":1500}],"routes":{"config":[]}}`, `{"interfaces":[]}`} {
		if err := kube.PatchStatus(t.Context(), c, read(), kube.Set{Field: "currentState", Value: document(text)}, kube.Set{Field: "refused", Value: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := kube.PatchSpec(t.Context(), c, read(), kube.Set{Field: "desiredState", Value: document(text)}); err != nil {
			t.Fatal(err)
		}
		now := read()
		if !kube.SameJSON(now.Status.CurrentState.Raw, []byte(text)) || !kube.SameJSON(now.Spec.DesiredState.Raw, []byte(text)) {
			t.Errorf("the state is %s, the desired one %s; want %s", now.Status.CurrentState.Raw, now.Spec.DesiredState.Raw, text)
		}
		if now.Spec.Managed == nil || !*now.Spec.Managed || now.Status.Refused != "x" {
			t.Errorf("other fields changed: %+v", now)
		}
	}
	if err := kube.PatchStatus(t.Context(), c, first, kube.Set{Field: "refused", Value: "late"}); !apierrors.IsConflict(err) {
		t.Errorf("a status that is late: %v, want a conflict", err)
	}
	if err := kube.PatchSpec(t.Context(), c, first, kube.Set{Field: "desiredState", Value: document(`{}`)}); !apierrors.IsConflict(err) {
		t.Errorf("a specification that is late: %v, want a conflict", err)
	}
	unconditional := read()
	unconditional.ResourceVersion = ""
	if err := kube.PatchStatus(t.Context(), c, unconditional, kube.Set{Field: "refused"}); err != nil || read().Status.Refused != "" {
		t.Errorf("a field that ends: %q (%v)", read().Status.Refused, err)
	}
}
