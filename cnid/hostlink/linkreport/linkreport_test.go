// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package linkreport

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/multinet"
)

// TestAReportFitsItsObject has more and longer failures than there is room for.
func TestAReportFitsItsObject(t *testing.T) {
	var list []multinet.LinkFailure
	for vni := range uint32(v1alpha1.MaxHostLinkFailures + 7) {
		list = append(list, multinet.LinkFailure{
			LinkID: multinet.LinkID{Device: "ens4", Type: multinet.VXLAN, VNI: vni + 1}, Reason: v1alpha1.LinkRefusedReason, Message: strings.Repeat("ä", 300),
		})
	}
	got := specOf(list)
	if len(got.Failures) != v1alpha1.MaxHostLinkFailures || got.More != 7 || !same(got, specOf(list)) {
		t.Errorf("%d failures and %d more", len(got.Failures), got.More)
	}
	if text := got.Failures[3].Message; len(text) > maxMessage || !utf8.ValidString(text) || got.Failures[3].VNI != 4 {
		t.Errorf("a failure is %+v", got.Failures[3])
	}
	if same(got, specOf(list[:5])) || !same(specOf(nil), v1alpha1.HostLinkReportSpec{}) {
		t.Error("reports are not compared by their content")
	}
}
