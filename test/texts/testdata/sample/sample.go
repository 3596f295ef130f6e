// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package main has one example of each way of a text into a message. Each line that ends with
// "found" is one that the analysis finds.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/quote"
)

type row struct{ host, other string }

func (r row) String() string { return r.host }

type speaker interface{ speak(text string) string }

type loud struct{}

func (loud) speak(text string) string { return text + "!" }

type decoded struct {
	Text string `json:"text"`
}

func convert(pod *corev1.Pod) row { return row{host: pod.Spec.Hostname, other: "fixed"} }

func refuse(format string, args ...any) error { return fmt.Errorf(format, args...) }

func read(text string) (netip.Addr, error) { return netip.ParseAddr(text) }

func decode[T any](text string) (into T, err error) {
	err = json.Unmarshal([]byte(text), &into)
	return into, err
}

func main() {
	pod := &corev1.Pod{}
	r := convert(pod)
	_ = fmt.Errorf("host %q", r.host)                           // found
	_ = fmt.Errorf("host %s of %d", r.other, len(r.host))       // a fixed text and a number
	_ = fmt.Errorf("host %s", quote.Text(r.host))               // cut
	_ = fmt.Errorf("row %v", r)                                 // found
	_ = refuse("host %s", r.host)                               // found
	_ = errors.New("host " + r.host)                            // found
	_ = fmt.Errorf("pod %s on %s", pod.Name, pod.Spec.NodeName) // bounded
	var s speaker = loud{}
	_ = fmt.Sprintf("it says %s", s.speak(r.host)) // found
	if _, err := read(r.host); err != nil {
		_ = fmt.Errorf("read: %w", err)              // found
		_ = fmt.Errorf("read: %w", quote.Error(err)) // cut
	}
	slog.Info("a host", "name", r.host) // found
	if one, err := decode[decoded](pod.Annotations["a"]); err == nil {
		_ = fmt.Errorf("decoded %s", one.Text) // found
	}
	for _, host := range []string{r.host} {
		func() { _ = fmt.Errorf("in a function: %s", host) }() // found
	}
}
