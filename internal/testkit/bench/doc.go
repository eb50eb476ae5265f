// Package bench has the benchmark of the whole service (make bench) and its growth test (make
// scale): both drive the real binary over the real parts and print figures beside their targets.
// They fail on wrong answers, never on slowness, because machines differ.
package bench
