// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"fmt"
	"strings"

	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
)

// textOf words an answer for people.
func textOf(a *judgement.Answer) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s to %s, port %s: %s\n", a.From, a.To, a.Port, a.Verdict)
	for i := range a.Paths {
		path := &a.Paths[i]
		fmt.Fprintf(&out, "  %s to %s, port %s: %s\n", partyOf(&path.From), partyOf(&path.To), path.Port, path.Verdict)
		if path.Why != "" {
			fmt.Fprintf(&out, "    %s\n", path.Why)
		}
		writeDecision(&out, "egress of "+path.From.Name, path.Egress)
		writeDecision(&out, "ingress of "+path.To.Name, path.Ingress)
	}
	for _, problem := range a.Problems {
		fmt.Fprintf(&out, "problem: %s: %s\n", problem.Policy, problem.Problem)
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&out, "note: %s\n", note)
	}
	if !a.Enforced {
		fmt.Fprintf(&out, "note: %s\n", judgement.NotEnforced)
	}
	return out.String()
}

func writeDecision(out *strings.Builder, of string, d *judgement.Decision) {
	if d == nil {
		return
	}
	verdict := judgement.Refused
	if d.Allowed {
		verdict = judgement.Allowed
	}
	fmt.Fprintf(out, "    %s: %s: %s\n", of, verdict, d.Text)
	if d.Remedy == nil {
		return
	}
	fmt.Fprintf(out, "      to allow it: %s\n", d.Remedy.Text)
	for line := range strings.Lines(d.Remedy.Rule) {
		out.WriteString("        " + line)
	}
}

// partyOf names an end with its place.
func partyOf(p *judgement.Party) string {
	var facts []string
	if p.VPC != "" {
		facts = append(facts, "VPC "+p.VPC)
	}
	if p.Network != "" {
		facts = append(facts, "network "+p.Network)
	}
	if p.HostNetwork {
		facts = append(facts, "on the network of its node")
	}
	facts = append(facts, p.IPs...)
	name := p.Name
	if p.Kind != string(judgement.IP) {
		name = p.Kind + " " + name
	}
	if len(facts) == 0 {
		return name
	}
	return name + " (" + strings.Join(facts, ", ") + ")"
}
