// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// records implements journal.Reader.
type records []journal.Record

// Records implements journal.Reader.
func (r records) Records() []journal.Record { return r }

func TestInterfaceMetrics_EachDriverAndNetwork_Counted(t *testing.T) {
	record := func(kind ifdriver.Kind, vpc, outside string, phase journal.Phase) journal.Record {
		return journal.Record{Interface: journal.Interface{Kind: kind}, Binding: journal.Binding{VPC: vpc, Outside: outside}, Phase: phase}
	}
	collector := attachment.NewCollector(records{
		record("veth", "blue", "", journal.PhaseDone), record("veth", "red", "", journal.PhaseDone), record("veth", "red", "", journal.PhaseLeaving),
		record("macvlan", "", "DanmNet/a/ext", journal.PhaseDone), record("macvlan", "", "DanmNet/b/ext", journal.PhaseDone),
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	var got []string
	for _, metric := range families[0].GetMetric() {
		var labels []string
		for _, label := range metric.GetLabel() {
			labels = append(labels, label.GetName()+"="+label.GetValue())
		}
		got = append(got, fmt.Sprint(strings.Join(labels, " "), " ", metric.GetGauge().GetValue()))
	}
	want := []string{"driver=macvlan network=DanmNet/a/ext 1", "driver=macvlan network=DanmNet/b/ext 1", "driver=veth network=VPC 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
