// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reads_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

const module = "github.com/alioth-net/alioth"

// TestReads_EachAccess_OnlyReadsFound runs over a program with one example of each way to read or
// write a field.
func TestReads_EachAccess_OnlyReadsFound(t *testing.T) {
	program, err := reads.Load(t.Context(), ".", module, "./testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	report := reads.Of(program, reads.Rules{API: []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/meta/v1"}})
	var found []string
	for _, read := range report.Reads {
		found = append(found, read.Kind.Name+" "+read.Path)
	}
	want := []string{
		"Node spec.taints[*]",
		"Pod metadata.annotations[example.com/read]",
		"Pod metadata.labels[example.com/label]",
		"Pod metadata.uid",
		"Pod spec.containers[*].ports[*].hostPort",
		"Service spec.sessionAffinityConfig",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("reads (-want +found):\n%s", diff)
	}
	if len(report.Opaque) != 0 {
		t.Errorf("opaque calls: %v", report.Opaque)
	}
}

// TestReads_CallWithUnknownKind_Reported: the reads of another module can't be attributed to kinds.
func TestReads_CallWithUnknownKind_Reported(t *testing.T) {
	program, err := reads.Load(t.Context(), ".", module, "./testdata/opaque")
	if err != nil {
		t.Fatal(err)
	}
	rules := reads.Rules{API: []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/meta/v1"}}
	want := []reads.Opaque{{Function: "encoding/json.Marshal", File: "test/api/trust/reads/testdata/opaque/opaque.go"}}
	if diff := cmp.Diff(want, reads.Of(program, rules).Opaque); diff != "" {
		t.Errorf("opaque calls (-want +found):\n%s", diff)
	}
	rules.Carriers = []string{"encoding/json.*"}
	if found := reads.Of(program, rules).Opaque; len(found) != 0 {
		t.Errorf("calls of a carrier are opaque: %v", found)
	}
}
