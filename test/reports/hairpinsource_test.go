// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "hairpin-source", Source: "cilium/cilium#26100", Kind: hairpin,
	Input: "A pod is the only endpoint of a Service and asks it.",
	Want:  "The pod answers itself, and sees its own address as the client's.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		l.lead(t, service, l.one)
		q := question{from: l.in(l.one), targets: at(service, "tcp", "udp", "http")}
		q.await(t, name(l.one))
		results, err := q.ask(patience(t), 3, stage.AnswerTime)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if problem := stage.CheckAnswer(r, name(l.one), scene.IPs(l.one)); problem != "" {
				t.Error(problem)
			}
		}
	},
})
