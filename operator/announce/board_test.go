// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/store/rules/tenancy"
)

func TestBoard_SameRefusal_NewOncePerObjectLife(t *testing.T) {
	var board Board
	name := types.NamespacedName{Namespace: "blue", Name: "web"}
	first, second := tenancy.Refusal{Reason: "First", Message: "a"}, tenancy.Refusal{Reason: "Second", Message: "b"}
	changed := tenancy.Refusal{Reason: "First", Message: "c"}
	for _, step := range []struct {
		what string
		uid  string
		have []*tenancy.Refusal
		news []tenancy.Refusal
	}{
		{"none", "u1", []*tenancy.Refusal{nil}, nil},
		{"the first", "u1", []*tenancy.Refusal{&first, nil}, []tenancy.Refusal{first}},
		{"the same", "u1", []*tenancy.Refusal{&first}, nil},
		{"another beside it", "u1", []*tenancy.Refusal{&first, &second}, []tenancy.Refusal{second}},
		{"a changed text", "u1", []*tenancy.Refusal{&changed, &second}, []tenancy.Refusal{changed}},
		{"a successor of the name", "u2", []*tenancy.Refusal{&second}, []tenancy.Refusal{second}},
		{"solved", "u2", nil, nil},
		{"again", "u2", []*tenancy.Refusal{&second}, []tenancy.Refusal{second}},
	} {
		if got := board.News(name, step.uid, step.have...); !slices.Equal(got, step.news) {
			t.Errorf("%s: news are %v, want %v", step.what, got, step.news)
		}
		if listed := slices.Contains(board.In(name.Namespace), name.Name) && slices.Contains(board.Namespaces(), name.Namespace); listed != slices.ContainsFunc(
			step.have,
			func(r *tenancy.Refusal) bool { return r != nil },
		) {
			t.Errorf("%s: listed %v", step.what, listed)
		}
	}
}
