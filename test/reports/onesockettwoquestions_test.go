// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "one-socket-two-questions", Source: "kubernetes/kubernetes#56903", Kind: udpFlows,
	Input: "A resolver sends two questions at once from a new socket to a UDP Service with two endpoints.",
	Want:  "Both are answered, each time, and the answers come from the Service.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		l.lead(t, service, l.one, l.two)
		for _, from := range l.clients() {
			question{from: l.in(from), targets: at(service, "udp")}.await(t, anybody)
			for range 10 {
				for _, target := range at(service, "udp") {
					l.expectBothAnswered(t, l.in(from), strings.TrimPrefix(target, "udp://"))
				}
			}
		}
	},
})

// expectBothAnswered asks an address twice at once.
func (l *lab) expectBothAnswered(t *testing.T, from tool, target string) {
	t.Helper()
	var came []string
	out, err := from(patience(t), "socket", "shared", target, target)
	if err != nil {
		t.Fatal(err)
	}
	replies, err := scene.ParseLines[report.Socket](out)
	for _, reply := range replies {
		came = append(came, reply.From)
	}
	if err != nil || !slices.Equal(came, []string{target, target}) {
		t.Errorf("of two questions to %s, replies come from %v, %v", target, came, err)
	}
}
