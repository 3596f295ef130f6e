// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// printer writes for people: coloured on a terminal, plain ASCII elsewhere.
type printer struct {
	out   io.Writer
	color bool
	start time.Time
}

func newPrinter(out io.Writer) *printer {
	file, isFile := out.(*os.File)
	color := isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""
	return &printer{out: out, color: color, start: time.Now()}
}

func (p *printer) printf(format string, arguments ...any) {
	fmt.Fprintf(p.out, format, arguments...)
}

// step prints the present step, and its time.
func (p *printer) step(text string) {
	p.printf("[%6.1fs] %s\n", time.Since(p.start).Seconds(), text)
}

// paint colours a text that was padded before.
func (p *printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// pods lists the pods with their nodes and addresses.
func (p *printer) pods(pods []*corev1.Pod) {
	p.printf("\n  %-18s %-14s %-7s %-12s %-20s %s\n", "POD", "NODE", "SUBNET", "IPV4", "IPV6", "HTTP PROBE")
	for _, pod := range pods {
		p.printf("  %-18s %-14s %-7s %-12s %-20s %s\n", pod.Namespace+"/"+pod.Name, pod.Spec.NodeName, subnetOf(pod),
			scene.IP(pod, false), scene.IP(pod, true), p.paint("32", "ok"))
	}
	p.printf("\n")
}

// subnetOf reads the subnet from the annotation that the operator wrote.
func subnetOf(pod *corev1.Pod) string {
	_, rest, _ := strings.Cut(pod.Annotations[arktosv1.UserInputAnnotation], `"net": "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// signs of the cells, with their text and their colour.
var signs = map[cell]struct{ text, color string }{
	itself:  {".", "2"},
	reached: {"ok", "32"},
	apart:   {"--", "36"},
	partly:  {"??", "31"},
}

const (
	rowWidth  = 18
	cellWidth = 7
)

func (p *printer) matrix(m matrix) {
	p.printf("\nReachability (rows connect to columns)\n\n")
	p.head(m.pods)
	for _, from := range m.pods {
		p.printf("  %-*s", rowWidth, from.Namespace+"/"+from.Name)
		for i, to := range m.pods {
			if startsTenant(m.pods, i) {
				p.printf("  ")
			}
			found := m.cells[pair{from, to}]
			color := signs[found].color
			if found != (pair{from, to}).wanted() {
				color = "31;1"
			}
			p.printf("%s", p.paint(color, fmt.Sprintf("%-*s", cellWidth, signs[found].text)))
		}
		p.printf("\n")
	}
	p.printf("\n  ok  that pod answered every request: ping, TCP, UDP, HTTP, over IPv4 and IPv6\n")
	p.printf("  --  no request arrived, although both tenants use the same addresses\n\n")
	p.verdict(m)
}

// head writes the columns' names, the tenants' above the pods'.
func (p *printer) head(pods []*corev1.Pod) {
	tenants, names := "", ""
	for i, pod := range pods {
		if startsTenant(pods, i) {
			tenants = fmt.Sprintf("%-*s", len(names)+2, tenants) + pod.Namespace
			names += "  "
		}
		names += fmt.Sprintf("%-*s", cellWidth, pod.Name)
	}
	p.printf("  %-*s%s\n  %-*s%s\n", rowWidth, "", tenants, rowWidth, "", names)
}

func startsTenant(pods []*corev1.Pod, i int) bool {
	return i == 0 || pods[i-1].Namespace != pods[i].Namespace
}

func (p *printer) verdict(m matrix) {
	for _, problem := range m.problems {
		p.printf("  %s\n", p.paint("31", problem))
	}
	if m.asItMustBe() {
		p.printf("%s %d pairs within the tenants reach each other, %d pairs across the tenants do not.\n",
			p.paint("32;1", "Correct:"), m.count(reached), m.count(apart))
		return
	}
	p.printf("%s\n", p.paint("31;1", "NOT correct."))
}

// hints prints commands to try, and other things to look at. node is the name of a node.
func (p *printer) hints(node string) {
	p.printf("\nThree things to try:\n")
	for i, try := range tries() {
		p.printf("%d. %s\n   %s\n", i+1, try.why, p.paint("1", try.command))
	}
	p.printf(`
Look around:
  .cluster/bin/kubectl get vpc,vsub,anet -A
  .cluster/bin/kubectl get addr -o wide
  .cluster/bin/aliothctl status --node %[1]s
  .cluster/bin/aliothctl verify
  .cluster/bin/node-exec %[1]s -- ip -br link
Take it down:
  make down
`, node)
}
