// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver //nolint:testpackage // parsing is an inner step

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
)

// TestErrorText_LongRequest_LittleRepeated sets each text of a request to long and hostile ones. The
// kubelet writes these errors into events of the pod.
func TestErrorText_LongRequest_LittleRepeated(t *testing.T) {
	const args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u"
	base := cniapi.Request{
		Command:     "ADD",
		ContainerID: "c1",
		Netns:       "/run/netns/a",
		IfName:      "eth0",
		Args:        args,
		Config:      []byte(`{"cniVersion":"1.1.0","name":"net"}`),
	}
	if _, err := parse(base); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"long": strings.Repeat("~", 256<<10), "escapes": strings.Repeat("~\n\x1b[31m", 32<<10), "invalid": strings.Repeat("~\xff\xfe", 64<<10), "short": "~\n\x1b[31m",
	} {
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for field, set := range map[string]func(*cniapi.Request){
			"command":     func(r *cniapi.Request) { r.Command = text },
			"containerID": func(r *cniapi.Request) { r.ContainerID = text },
			"ifName":      func(r *cniapi.Request) { r.IfName = text },
			"args":        func(r *cniapi.Request) { r.Args = text },
			"namespace": func(r *cniapi.Request) {
				r.Args = "K8S_POD_NAMESPACE=" + text + ";" + args[len("K8S_POD_NAMESPACE=shop;"):]
			},
			"sandbox": func(r *cniapi.Request) { r.Args += ";K8S_POD_INFRA_CONTAINER_ID=" + text },
			"config":  func(r *cniapi.Request) { r.Config = []byte(text) },
			"version": func(r *cniapi.Request) { r.Config = []byte(`{"cniVersion":` + string(encoded) + `}`) },
			"network": func(r *cniapi.Request) { r.Config = []byte(`{"cniVersion":"1.1.0","name":` + string(encoded) + `}`) },
			"to keep": func(r *cniapi.Request) {
				r.Config = []byte(`{"cniVersion":"1.1.0","cni.dev/valid-attachments":[{"containerID":` + string(encoded) + `}]}`)
			},
		} {
			request := base
			set(&request)
			_, err := parse(request)
			if err == nil {
				t.Errorf("%s, %s: it is accepted", field, name)
				continue
			}
			message := cniError(err).Error()
			if strings.Count(message, "~") > quote.MaxQuoted || strings.IndexFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Errorf("%s, %s: the error has %d bytes: %.200q", field, name, len(message), message)
			}
		}
	}
}
