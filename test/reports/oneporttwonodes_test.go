// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "one-port-two-nodes", Source: "projectcalico/felix#2983", Kind: tcpPorts,
	Input: "A host outside has connections from one source port to a node port of two nodes at once. Both lead to one endpoint.",
	Want:  "Each connection is answered.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts)
		l.lead(t, service, l.two)
		targets := l.atNodes(service, "tcp")
		question{from: l.on(l.host), targets: targets}.await(t, name(l.two))
		const times = 20
		command := []string{"probe", "--count", fmt.Sprint(times), "--timeout", stage.AnswerTime.String(), "--source-port", "21005"}
		results, err := scene.ParseLines[report.Probe](l.OnHost(t, l.host, append(command, targets...)...))
		if err != nil || len(results) != times*len(targets) {
			t.Fatalf("%d results, %v", len(results), err)
		}
		for _, problem := range wrongAmong(results, name(l.two)) {
			t.Error(problem)
		}
	},
})
