// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updates_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/api/trust/reads"
	"github.com/alioth-net/alioth/test/updates"
)

const module = "github.com/alioth-net/alioth"

// written are the kinds that the product alone writes, with their writer. An object of another
// version of its own CRD has no user's fields.
var written = map[string]string{
	"v1alpha1.AdmissionGrants": "the operator",
	"v1alpha1.HostLink":        "the operator",
	"v1alpha1.HostLinkReport":  "the daemon of the node",
	"v1alpha1.RoleMember":      "the operator",
	"v1alpha1.RollCall":        "the operator, and the daemon of the node",
	"v1alpha1.ScaledEndpoint":  "the operator",
	"v1alpha1.Usage":           "the operator",
	"v1.Endpoints":             "the operator, of Services whose annotations select networks",
}

// open are places that hand the method on, with the kind that they write. A second place in
// the same file is refused.
var open = map[string]string{
	"cnid/cluster/roles/roles.go":       "v1alpha1.NodeRoles, by the daemon of the node",
	"cnid/cluster/rollcall/rollcall.go": "v1alpha1.RollCall",
}

// TestProduct_WholeUpdates_OnlyOwnKinds: mend a finding by a patch of the fields that the product
// changes, as package operator/write does. A new kind that the product alone writes gets a line
// above.
func TestProduct_WholeUpdates_OnlyOwnKinds(t *testing.T) {
	program, err := reads.Load(t.Context(), "../..", module, "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	kinds, files := map[string]bool{}, map[string]bool{}
	for _, found := range updates.Of(program) {
		file, _, _ := strings.Cut(found.Place, ":")
		switch {
		case written[found.Kind] != "":
			kinds[found.Kind] = true
		case found.Kind == "" && open[file] != "" && !files[file]:
			files[file] = true
		default:
			t.Errorf("%s: updates a whole object of kind %q, which others write, too: patch what the product changes", found.Place, found.Kind)
		}
	}
	for kind := range written {
		if !kinds[kind] {
			t.Errorf("nothing updates %s: remove its line", kind)
		}
	}
	for file := range open {
		if !files[file] {
			t.Errorf("%s hands no method on: remove its line", file)
		}
	}
}

// TestUpdates_Sample_EachWayFound runs over a program with one example of each.
func TestUpdates_Sample_EachWayFound(t *testing.T) {
	const sample = "test/updates/testdata/sample/sample.go"
	program, err := reads.Load(t.Context(), ".", module, "./testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	var found, want []string
	for _, one := range updates.Of(program) {
		if strings.HasPrefix(one.Place, "test/updates/") {
			found = append(found, one.Place)
		}
	}
	source, err := os.ReadFile("testdata/sample/sample.go")
	if err != nil {
		t.Fatal(err)
	}
	for at, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// found") {
			want = append(want, fmt.Sprintf("%s:%d", sample, at+1))
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("places (-want +found):\n%s", diff)
	}
}
