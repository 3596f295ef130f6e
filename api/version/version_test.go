// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

func TestNumber_Format_Semantic(t *testing.T) {
	if _, err := utilversion.ParseSemantic(Number); err != nil {
		t.Error(err)
	}
}

func TestNumber_Chart_Equal(t *testing.T) {
	text, err := os.ReadFile("../../helm/alioth/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Version, AppVersion, KubeVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != Number || chart.AppVersion != Number {
		t.Errorf("the chart has version %q and appVersion %q, want %q: run make generate", chart.Version, chart.AppVersion, Number)
	}
	// The part after the dash permits the versions of distributions, such as 1.36.3-eks-1.
	if want := ">= " + OldestKubernetes + ".0-0"; chart.KubeVersion != want {
		t.Errorf("the chart has kubeVersion %q, want %q: run make generate", chart.KubeVersion, want)
	}
}

func TestInfo_LinkedCommit_Told(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	set := func(c, d, m string) { commit, date, modified = c, d, m }
	t.Cleanup(func() { set("", "", "") })
	set(hash, "2026-11-29T10:00:00Z", "true")
	linked := Get()
	if linked.Labels()["revision"] != hash {
		t.Errorf("the metric has the labels %v, want the revision %q", linked.Labels(), hash)
	}
	set("", "", "")
	var noted Info
	noted.noted(&debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: hash},
		{Key: "vcs.time", Value: "2026-11-29T10:00:00Z"},
		{Key: "vcs.modified", Value: "true"},
	}})
	for name, info := range map[string]Info{"linked": linked, "noted by the go command": noted} {
		for _, want := range []string{"0123456789ab", "with changes", "2026-11-29T10:00:00Z"} {
			if !strings.Contains(info.String(), want) {
				t.Errorf("%s: %q lacks %q", name, info, want)
			}
		}
	}
}

func TestInfo_UnknownCommit_Told(t *testing.T) {
	info := Info{Version: "v" + Number}
	if text := info.String(); !strings.Contains(text, "unknown commit") {
		t.Errorf("without a commit: %q", text)
	}
	if got := info.Labels()["revision"]; got != "unknown" {
		t.Errorf("the metric has the revision %q, want unknown", got)
	}
}
