package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process of this machine uses.
type Usage struct {
	CPU     time.Duration // user and system time since its start, to the hundredth of a second
	RSS     int64         // bytes of memory in RAM, its program text included
	PeakRSS int64         // bytes, the highest RSS so far
	Files   int           // open file descriptors
	Threads int
}

// ticksPerSecond is USER_HZ, the unit of times in /proc, which is 100 on Linux everywhere.
const ticksPerSecond = 100

// UsageOf reads /proc. It fails when there is no such process, or it is another user's.
func UsageOf(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	fail := func(err error) (Usage, error) { return Usage{}, fmt.Errorf("read what process %d uses: %w", pid, err) }
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return fail(err)
	}
	var u Usage
	if u.CPU, err = cpuTime(stat); err != nil {
		return fail(err)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return fail(err)
	}
	u.RSS = statusNumber(status, "VmRSS") << 10
	u.PeakRSS = statusNumber(status, "VmHWM") << 10
	u.Threads = int(statusNumber(status, "Threads"))
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		return fail(err)
	}
	u.Files = len(files)
	return u, nil
}

// cpuTime adds user and system time, the 14th and 15th field. The second field is the program's name
// in parentheses and may have spaces.
func cpuTime(stat []byte) (time.Duration, error) {
	_, rest, found := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("%q is no stat line", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// statusNumber is the number in a line of /proc/PID/status; 0 if there is no such line.
func statusNumber(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		value, found := strings.CutPrefix(line, name+":")
		if !found {
			continue
		}
		fields := strings.Fields(value)
		if len(fields) == 0 {
			return 0
		}
		n, _ := strconv.ParseInt(fields[0], 10, 64)
		return n
	}
	return 0
}

// Machine describes where figures were measured, for people.
func Machine() string {
	model, cores := "unknown processor", 0
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name":
			model = strings.TrimSpace(value)
		case "processor":
			cores++
		}
	}
	memory, _ := os.ReadFile("/proc/meminfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	others, _ := os.ReadFile("/proc/loadavg")
	busy, _, _ := strings.Cut(string(others), " ")
	return fmt.Sprintf("%d cores (%s), %d GiB, Linux %s, load average %s at the beginning",
		cores, model, statusNumber(memory, "MemTotal")>>20, strings.TrimSpace(string(kernel)), busy)
}
