// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// auditPolicy notes the requests of ServiceAccounts: a watch when it begins,
// anything else when it is answered.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]}`

func auditLog(dir string) string { return filepath.Join(dir, "audit.log") }

// auditArgs writes the policy into dir and returns the arguments for it.
func auditArgs(dir string) ([]string, error) {
	policy := filepath.Join(dir, "audit.json")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog(dir)}, nil
}

// Request is a request that a ServiceAccount made for a resource.
type Request struct {
	// User is the ServiceAccount's user name. Node is the node of the pod that its token was bound
	// to, or "".
	User, Node string
	// Right is the required right: "verb resource.group/subresource".
	Right string
	// Refused is true where the right, or an admission policy's consent, was
	// missing.
	Refused bool
}

// auditEvent is as much as is read of a line of the log (audit.k8s.io/v1).
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Requests returns the requests of ServiceAccounts since the server was started first.
func (s *Server) Requests() ([]Request, error) {
	text, err := os.ReadFile(auditLog(s.dir))
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	var all []Request
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if event.ObjectRef == nil {
			continue
		}
		all = append(all, event.request())
	}
	return all, nil
}

func (e auditEvent) request() Request {
	right := strings.TrimSuffix(e.Verb+" "+e.ObjectRef.Resource+"."+e.ObjectRef.APIGroup, ".")
	if e.ObjectRef.Subresource != "" {
		right += "/" + e.ObjectRef.Subresource
	}
	return Request{
		User: e.User.Username, Node: strings.Join(e.User.Extra["authentication.kubernetes.io/node-name"], ""),
		Right: right, Refused: e.ResponseStatus.Code == http.StatusForbidden,
	}
}
