// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/policyhandler"
)

var _ policyhandler.API = API{}

// server is an API server that keeps its requests, and answers with another version.
type server struct {
	client.Client
	listed  client.ListOptions
	patched string
}

func (s *server) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	s.listed.ApplyOptions(options)
	return nil
}

func (s *server) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	s.patched = string(patch.Type()) + " " + string(data)
	object.SetResourceVersion("2")
	return err
}

func TestList_FieldSelector_Passed(t *testing.T) {
	s := &server{}
	api := API{Client: s, Live: s}
	if err := api.List(t.Context(), &v1beta1.NodeNetworkStateList{}, "a", "metadata.name=n1"); err != nil {
		t.Fatal(err)
	}
	if s.listed.Namespace != "a" || s.listed.FieldSelector.String() != "metadata.name=n1" {
		t.Errorf("asked for %+v", s.listed)
	}
	if err := api.List(t.Context(), &v1beta1.NodeNetworkState{}, "", ""); err == nil {
		t.Error("an object is listed that is no list")
	}
	if err := api.List(t.Context(), &v1beta1.NodeNetworkStateList{}, "", "metadata.name~n1"); err == nil {
		t.Error("a selector that is none is taken")
	}
}

func TestPatch_Object_Unchanged(t *testing.T) {
	s := &server{}
	api := API{Client: s, Live: s}
	state := &v1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "1"}}
	if err := api.Patch(t.Context(), state, types.JSONPatchType, []byte("[]")); err != nil {
		t.Fatal(err)
	}
	if state.ResourceVersion != "1" || s.patched != "application/json-patch+json []" {
		t.Errorf("sent %q, and the object has version %s", s.patched, state.ResourceVersion)
	}
	if err := api.Patch(t.Context(), state, types.JSONPatchType, []byte("[]"), "scale"); err == nil {
		t.Error("a subresource is patched that nobody has")
	}
}
