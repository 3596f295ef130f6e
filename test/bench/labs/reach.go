// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// samplesPerRound is how many pods one round of reach starts, one after the
// other.
const samplesPerRound = 4

// attachedMessage is the message that the daemon logs when it answers an ADD.
const attachedMessage = "pod attached"

// Reach measures the time from the daemon's answer to an ADD until pods on
// every node reached the new pod. Addresses are announced before the ADD, so
// that it may well be nothing.
func (b *Bench) Reach(ctx context.Context) (err error) {
	tenant, removeTenant, err := b.tenant(ctx, "bench-reach")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTenant()) }()
	var watchers []*corev1.Pod
	for _, node := range b.lab.Nodes() {
		watchers = append(watchers, tenant.Pod("watcher-"+node.Name, scene.OnNode(node.Name)))
	}
	setUp, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	if err := b.stage.Start(setUp, watchers...); err != nil {
		return err
	}
	var delays []time.Duration
	for i := range b.rounds * samplesPerRound {
		delay, err := b.sample(ctx, tenant, watchers, i)
		if err != nil {
			return err
		}
		delays = append(delays, delay)
	}
	b.step(fmt.Sprintf("started %d pods and watched for each from every node", len(delays)))
	quantiles := report.QuantilesOf(delays)
	return figures.Print(
		b.out,
		"From the answer to an ADD until the pod is reachable from every node",
		[]string{figures.Alioth},
		[]*figures.Row{
			plainRow("p50", quantiles.P50), plainRow("p99", quantiles.P99),
		},
	)
}

func plainRow(name string, value time.Duration) *figures.Row {
	row := &figures.Row{What: name, Unit: "ms", Format: "%.1f", Subject: figures.Alioth}
	row.Add(figures.Alioth, float64(value.Microseconds())/1e3)
	return row
}

// sample starts one pod under an address that the watchers already ask, and
// returns how long after the answer the last of them reached it; 0 when all
// did before.
func (b *Bench) sample(
	ctx context.Context,
	tenant *scene.Tenant,
	watchers []*corev1.Pod,
	i int,
) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	address := fmt.Sprintf("10.50.8.%d", i%200+10)
	node := b.lab.Nodes()[i%len(b.lab.Nodes())].Name
	pod := tenant.Pod(fmt.Sprintf("sample-%d", i), scene.OnNode(node), scene.WithNIC(`{"ip": "`+address+`"}`))
	replies := make([]report.FirstReply, len(watchers))
	group, groupCtx := errgroup.WithContext(ctx)
	for w, watcher := range watchers {
		group.Go(func() error {
			return packets.Path{
				Name: watcher.Name,
				Run:  b.inPod(watcher),
			}.Ask(
				groupCtx,
				&replies[w],
				"await",
				address,
				"--timeout",
				setUpTime.String(),
			)
		})
	}
	if err := b.stage.Start(ctx, pod); err != nil {
		return 0, errors.Join(err, group.Wait())
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	answered, err := b.answerTime(ctx, pod)
	if err != nil {
		return 0, err
	}
	var delay time.Duration
	for _, reply := range replies {
		delay = max(delay, reply.At.Sub(answered))
	}
	return delay, b.stage.Delete(ctx, pod)
}

// answerTime reads from the daemon's log when it answered the ADD of a pod.
// All nodes of a lab share one clock.
func (b *Bench) answerTime(ctx context.Context, pod *corev1.Pod) (time.Time, error) {
	daemon, err := b.lab.DaemonPod(ctx, pod.Spec.NodeName)
	if err != nil {
		return time.Time{}, err
	}
	var at time.Time
	err = scene.Until(ctx, "the daemon's log to tell of "+pod.Name, func(ctx context.Context) (bool, string, error) {
		lines := int64(400)
		text, err := b.lab.Client().
			CoreV1().
			Pods(cluster.SystemNamespace).
			GetLogs(daemon.Name, &corev1.PodLogOptions{Timestamps: true, TailLines: &lines}).
			DoRaw(ctx)
		if err != nil {
			return false, "", err
		}
		at = attachedAt(string(text), pod.Namespace+"/"+pod.Name)
		return !at.IsZero(), "no such line", nil
	})
	return at, err
}

// attachedAt finds the line about a pod and returns its time stamp, or the zero time.
func attachedAt(log, pod string) (at time.Time) {
	for line := range strings.Lines(log) {
		stamp, text, _ := strings.Cut(line, " ")
		if !strings.Contains(text, attachedMessage) || !namesPod(text, pod) {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at = t
		}
	}
	return at
}

// namesPod understands both of the daemon's log formats.
func namesPod(text, pod string) bool {
	var fields struct{ Pod string }
	if json.Unmarshal([]byte(text), &fields) == nil {
		return fields.Pod == pod
	}
	for _, field := range strings.Fields(text) {
		if field == "pod="+pod {
			return true
		}
	}
	return false
}
