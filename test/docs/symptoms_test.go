// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/docs/pages"
)

var (
	// eventReason is a reason of a condition or an event, dropReason one of a packet.
	eventReason = regexp.MustCompile(`^[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+$`)
	dropReason  = regexp.MustCompile(`^[a-z]+(?:_[a-z]+)+$`)
)

// othersWords are words of Kubernetes and of schemas that look like reasons.
var othersWords = map[string]string{
	"FailedCreatePodSandBox": "an event of the kubelet",
	"NetworkPluginNotReady":  "a reason of the kubelet",
	"HostAccess":             "a kind",
}

// TestSymptomPages_Reasons_Exist: each reason in the pages of troubleshooting is in reasons.md,
// where people look for it.
func TestSymptomPages_Reasons_Exist(t *testing.T) {
	known, err := os.ReadFile(filepath.Join(root, "docs/reference/reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := read(t)
	named := 0
	for _, page := range pages.Below(all, "docs/troubleshoot") {
		for _, span := range page.Spans {
			if othersWords[span.Text] != "" || !eventReason.MatchString(span.Text) && !dropReason.MatchString(span.Text) {
				continue
			}
			if strings.HasPrefix(span.Text, "alioth_") { // a metric
				continue
			}
			named++
			if !regexp.MustCompile(`\b` + span.Text + `\b`).Match(known) {
				t.Errorf("%s: docs/reference/reasons.md has no reason %s", page.At(span.Line), span.Text)
			}
		}
	}
	if named < 50 {
		t.Errorf("the pages name %d reasons, want 50 or more", named)
	}
}
