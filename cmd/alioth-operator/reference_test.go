// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/alioth-net/alioth/test/docs/reference"
)

func TestReferencePage_Program_MatchesCommandLine(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("POD_NAMESPACE", "")
	text, err := reference.CLI(newCommand())
	if err != nil {
		t.Fatal(err)
	}
	reference.Compare(t, "../..", "docs/reference/alioth-operator.md", text)
}
