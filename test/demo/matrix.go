// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// answerTime is how long a question is repeated. An answered question ends at once.
const answerTime = 3 * time.Second

// cell is the result of one pod's questions at the addresses of another.
type cell int

const (
	// itself: not asked.
	itself cell = iota
	// reached: every question was answered, by that very pod.
	reached
	// apart: no question got to that pod. Another pod may have answered: the asker's own tenant may
	// use the same address.
	apart
	// partly: some questions were answered by that pod and some were not.
	partly
)

// pair is an asker and a pod that it asks.
type pair struct{ from, to *corev1.Pod }

// wanted returns the result that must be found.
func (p pair) wanted() cell {
	switch {
	case p.from == p.to:
		return itself
	case p.from.Namespace == p.to.Namespace:
		return reached
	}
	return apart
}

// matrix is who reaches whom.
type matrix struct {
	pods  []*corev1.Pod
	cells map[pair]cell
	// problems describe where the outcome was not as expected.
	problems []string
}

func (m matrix) asItMustBe() bool {
	return len(m.problems) == 0 && len(m.cells) == len(m.pods)*len(m.pods)
}

// count returns the number of cells of a kind.
func (m matrix) count(kind cell) (n int) {
	for _, c := range m.cells {
		if c == kind {
			n++
		}
	}
	return n
}

// askAll asks every pod's addresses from every other pod, with a line that names the
// asker, and then looks into every pod for lines of other tenants.
func askAll(ctx context.Context, stage *scene.Scene, pods []*corev1.Pod) (matrix, error) {
	result := matrix{pods: pods, cells: map[pair]cell{}}
	run := time.Now().Format("150405.000000")
	answers := make([][]report.Probe, len(pods))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, from := range pods {
		group.Go(func() (err error) {
			answers[i], err = stage.AskWith(groupCtx, from, answerTime, line(run, from), allQuestions(from, pods)...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return result, err
	}
	for i, from := range pods {
		rest := answers[i]
		for _, to := range pods {
			n := len(questions(pair{from, to}))
			result.judge(pair{from, to}, rest[:n])
			rest = rest[n:]
		}
	}
	for _, pod := range pods {
		seen, err := stage.Seen(ctx, pod)
		if err != nil {
			return result, err
		}
		result.judgeSeen(pod, seen, run)
	}
	return result, nil
}

// allQuestions returns the targets that a pod asks, ordered as the pods are.
func allQuestions(from *corev1.Pod, pods []*corev1.Pod) []string {
	var targets []string
	for _, to := range pods {
		targets = append(targets, questions(pair{from, to})...)
	}
	return targets
}

// questions returns the targets that one pod asks about another.
func questions(p pair) []string {
	if p.from == p.to {
		return nil
	}
	return scene.Targets(scene.Protocols(), scene.IPs(p.to)...)
}

// line returns the text that an asker sends. It names the asker to the pods that receive it.
func line(run string, from *corev1.Pod) string {
	return fmt.Sprintf("demo-%s-%s/%s", run, from.Namespace, from.Name)
}

// judge fills a cell from the answers to its questions. A ping has no name: it counts as
// answered by the pod only where the two are of one tenant.
func (m *matrix) judge(p pair, answers []report.Probe) {
	if p.from == p.to {
		m.cells[p] = itself
		return
	}
	byPod := m.countByPod(p, answers)
	switch {
	case byPod == 0:
		m.cells[p] = apart
	case byPod == len(answers):
		m.cells[p] = reached
	default:
		m.cells[p] = partly
	}
	if m.cells[p] != p.wanted() && p.wanted() == apart {
		m.problem(p, "%d of %d questions were answered across tenants", byPod, len(answers))
	}
}

// countByPod counts the answers of the asked pod. Where the pod must answer, it reports missing
// answers and answers of other pods.
func (m *matrix) countByPod(p pair, answers []report.Probe) int {
	byPod := 0
	for _, answer := range answers {
		isPing := strings.HasPrefix(answer.Target, "icmp")
		switch {
		case answer.OK && isPing && p.wanted() == reached,
			answer.OK && answer.Name == scene.ServerName(p.to.Namespace, p.to.Name):
			byPod++
		case !answer.OK && p.wanted() == reached:
			m.problem(p, "%s: no answer: %s", answer.Target, answer.Error)
		case answer.OK && !isPing && p.wanted() == reached:
			m.problem(p, "%s: answered by %s", answer.Target, answer.Name)
		}
	}
	return byPod
}

// judgeSeen reports every message of this run that a pod of another tenant
// sent.
func (m *matrix) judgeSeen(pod *corev1.Pod, seen []report.Seen, run string) {
	for _, message := range seen {
		for _, from := range m.pods {
			if from.Namespace != pod.Namespace && message.Text == line(run, from) {
				p := pair{from, pod}
				m.cells[p] = partly
				m.problem(p, "a message over %s got across tenants", message.Proto)
			}
		}
	}
}

func (m *matrix) problem(p pair, format string, arguments ...any) {
	m.problems = append(
		m.problems,
		fmt.Sprintf(
			"%s/%s to %s/%s: ",
			p.from.Namespace,
			p.from.Name,
			p.to.Namespace,
			p.to.Name,
		)+fmt.Sprintf(
			format,
			arguments...),
	)
}
